# Floorkeeper's image, built in the repository's root:
#
#   docker build --tag floorkeeper:0.1.0 .
#
# The base is pinned by its tag. For a release pin what the tag means today as well, with
#
#   --build-arg BASE=python:3.13.16-slim-trixie@sha256:DIGEST
#
# where DIGEST is the one that this prints:
#
#   docker buildx imagetools inspect --format '{{.Manifest.Digest}}' python:3.13.16-slim-trixie
#
# Two builds of one commit on one base are the same to the byte if BuildKit sets the times of files back:
#
#   SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) \
#       docker buildx build --output type=docker,rewrite-timestamp=true --tag floorkeeper:0.1.0 .
ARG BASE=python:3.13.16-slim-trixie

FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_ROOT_USER_ACTION=ignore \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONHASHSEED=0
WORKDIR /opt/source
COPY scripts/image/build.lock scripts/image/serve.lock ./
# Compiled here, since a running container's file system is read-only; by neither time nor source, so that two builds
# agree.
RUN python -m venv --without-pip /opt/floorkeeper && \
    python -m pip --python /opt/floorkeeper install \
        --no-compile --require-hashes --only-binary :all: --requirement serve.lock && \
    python -m pip install --require-hashes --only-binary :all: --requirement build.lock && \
    /opt/floorkeeper/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/floorkeeper/lib
COPY LICENSE README.md pyproject.toml ./
COPY webhook webhook
RUN python -m pip wheel --no-deps --no-index --no-build-isolation --wheel-dir dist . && \
    python -m pip --python /opt/floorkeeper install --no-compile --no-deps --no-index dist/*.whl && \
    python -m pip --python /opt/floorkeeper check && \
    /opt/floorkeeper/bin/python -m compileall -q --invalidation-mode unchecked-hash \
        /opt/floorkeeper/lib/python*/site-packages/webhook

FROM ${BASE}
ARG BASE
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="floorkeeper" \
      org.opencontainers.image.description="Keeps the invariants that make Kueue-based replica rebalancing safe" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="docker.io/library/${BASE}"
# Nothing is installed into a running container.
RUN rm -r /usr/local/lib/python3.13/ensurepip /usr/local/lib/python3.13/site-packages/pip* /usr/local/bin/pip*
COPY --from=build /opt/floorkeeper /opt/floorkeeper
ENV PATH=/opt/floorkeeper/bin:${PATH} \
    PYTHONDONTWRITEBYTECODE=1
EXPOSE 8443
# A number, so that Kubernetes can see that it is not root. Every file can be read by any other, too.
USER 65532:65532
ENTRYPOINT ["floorkeeper"]
