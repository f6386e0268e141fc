"""Kubernetes manifests taken out of the pinned Go modules into the cache, so that a warm `up` needs no Go."""

import hashlib
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from .build import build_folder, go_environment
from .cache import locked
from .pins import FOLDER, MODULES
from .progress import ClusterError, Progress
from .toolchain import find_go

# --crds name -> modules, and which files in them hold CRDs. Kueue depends on most of them, and so pins them.
CRDS = {
    "appwrapper": [("github.com/project-codeflare/appwrapper", "config/crd/bases/*.yaml")],
    "argo-rollouts": [("github.com/argoproj/argo-rollouts", "manifests/crds/rollout-crd.yaml")],
    # Without those of ACME, which no controller here serves.
    "cert-manager": [("github.com/cert-manager/cert-manager", "deploy/crds/cert-manager.io_*.yaml")],
    "jobset": [("sigs.k8s.io/jobset", "config/components/crd/bases/*.yaml")],
    "keda": [("github.com/kedacore/keda/v2", "config/crd/bases/keda.sh_*.yaml")],
    "knative": [
        ("knative.dev/serving", "config/core/300-resources/configuration.yaml"),
        ("knative.dev/serving", "config/core/300-resources/service.yaml"),
    ],
    "kserve": [
        # The full one is as heavy as all others together.
        ("github.com/kserve/kserve", "config/crd/minimal/serving.kserve.io_inferenceservices.yaml"),
        ("github.com/kserve/kserve", "config/crd/full/llmisvc/serving.kserve.io_llminferenceservices.yaml"),
    ],
    "kubeflow": [
        # The training operator's MPIJob is an older version, which Kueue does not know.
        ("github.com/kubeflow/training-operator", "manifests/base/crds/kubeflow.org_[!m]*.yaml"),
        ("github.com/kubeflow/mpi-operator", "manifests/base/kubeflow.org_mpijobs.yaml"),
    ],
    "lws": [("sigs.k8s.io/lws", "config/crd/bases/*.yaml")],
    "openkruise": [("github.com/openkruise/kruise", "config/crd/bases/apps.kruise.io_clonesets.yaml")],
    "policy-report": [("sigs.k8s.io/wg-policy-prototypes", "policy-report/crd/v1alpha2/*.yaml")],
    "ray": [
        # Not that of RayCronJob, which Kueue does not know.
        ("github.com/ray-project/kuberay/ray-operator", "config/crd/bases/ray.io_rayclusters.yaml"),
        ("github.com/ray-project/kuberay/ray-operator", "config/crd/bases/ray.io_ray[!c]*.yaml"),
    ],
    "prometheus-operator": [
        # The other eight weigh two megabytes, cost the API server seconds, and nothing of ours is one of them.
        ("github.com/prometheus-operator/prometheus-operator", "example/prometheus-operator-crd/*prometheusrules.yaml"),
        ("github.com/prometheus-operator/prometheus-operator", "example/prometheus-operator-crd/*servicemonitors.yaml"),
    ],
    "spark": [
        ("github.com/kubeflow/spark-operator/v2", "config/crd/bases/sparkoperator.k8s.io_sparkapplications.yaml"),
    ],
    "trainer": [("github.com/kubeflow/trainer/v2", "manifests/base/crds/*_*.yaml")],
    "volcano": [
        ("volcano.sh/volcano", "config/crd/volcano/bases/batch.volcano.sh_jobs.yaml"),
        ("volcano.sh/volcano", "config/crd/volcano/bases/scheduling.volcano.sh_queues.yaml"),
    ],
}

_PINNED_APART = (
    "argo-rollouts",
    "cert-manager",
    "keda",
    "knative",
    "kserve",
    "openkruise",
    "policy-report",
    "prometheus-operator",
    "volcano",
)

_WRITTEN = {"wgpolicyk8s.io": "v1alpha2"}
"""By group: the version to store in place of the module's choice, since everybody writes that one."""

# Fields of a Pod whose schemas are two thirds of every CRD that holds pod templates.
# fmt: off
_DEEP = frozenset({
    "affinity", "dnsConfig", "envFrom", "ephemeralContainers", "lifecycle", "livenessProbe", "readinessProbe",
    "securityContext", "startupProbe", "topologySpreadConstraints", "volumes",
})
# fmt: on

_KWOK_STAGES = ("node/fast", "node/heartbeat-with-lease", "pod/fast")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML as Kubernetes reads it, where a lone = (CRDs of the Prometheus operator hold one) is a string."""


_Loader.add_constructor("tag:yaml.org,2002:value", _Loader.construct_yaml_str)


def read_kueue(kubectl: Path, progress: Progress) -> list[dict[str, Any]]:
    """Kueue's shipped installation (config/default), as `kubectl kustomize` renders it."""

    def render() -> str:
        folder = _module_folder("kueue", "sigs.k8s.io/kueue", progress) / "config" / "default"
        answer = subprocess.run([kubectl, "kustomize", folder], capture_output=True, text=True)
        if answer.returncode != 0:
            raise ClusterError(f"{kubectl} kustomize {folder} failed: {answer.stderr.strip()}")
        return _to_json(answer.stdout)

    objects: list[dict[str, Any]] = json.loads(_cached("kueue.json", render, progress).read_text())
    return objects


def read_crds(name: str, progress: Progress) -> list[dict[str, Any]]:
    """The CRDs of one of the projects in CRDS, at the version that is pinned, made lean."""
    pins = name if name in _PINNED_APART else "kueue"

    def collect() -> str:
        texts = [
            file.read_text()
            for module, pattern in CRDS[name]
            for file in sorted(_module_folder(pins, module, progress).glob(pattern))
        ]
        return _to_json("\n---\n".join(texts), _lean)

    objects: list[dict[str, Any]] = json.loads(_cached(f"crds-{name}.json", collect, progress).read_text())
    return objects


def kwok_stages(progress: Progress) -> Path:
    """A file with the stages that make nodes Ready, keep them so, and make pods run."""

    def collect() -> str:
        stage = _module_folder("kwok", "sigs.k8s.io/kwok", progress) / "kustomize" / "stage"
        files = [file for part in _KWOK_STAGES for file in sorted((stage / part).glob("*-*.yaml"))]
        return "\n---\n".join(file.read_text() for file in files)

    return _cached("kwok-stages.yaml", collect, progress)


def _to_json(text: str, lean: Callable[[Any], Any] = lambda obj: obj) -> str:
    objects = (obj for obj in yaml.load_all(text, _Loader) if obj)
    return json.dumps([lean(obj) for obj in objects], default=str)


def _lean(crd: dict[str, Any]) -> dict[str, Any]:
    """The CRD without what costs the API server seconds of work and is asked for by nobody here: documentation,
    versions beside the stored one, and what is below some fields of a Pod, where anything is then let in."""
    written = _WRITTEN.get(crd["spec"]["group"])
    versions = [
        version | {"storage": True}
        for version in crd["spec"]["versions"]
        if (version["name"] == written if written else version["storage"])
    ]
    lean: dict[str, Any] = _pruned(crd | {"spec": crd["spec"] | {"versions": versions}})
    return lean


def _pruned(value: Any) -> Any:
    if isinstance(value, list):
        return [_pruned(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    # A property that is called description holds an object.
    kept = {name: entry for name, entry in value.items() if name != "description" or not isinstance(entry, str)}
    return {name: _opened(entry) if name in _DEEP else _pruned(entry) for name, entry in kept.items()}


def _opened(schema: Any) -> Any:
    """The schema of an object, or of a list of them, that holds anything."""
    if not isinstance(schema, dict) or schema.get("type") not in ("array", "object"):
        return schema
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return anything if schema["type"] == "object" else {"type": "array", "items": anything}


def _cached(name: str, make: Callable[[], str], progress: Progress) -> Path:
    """The named file in the cache, made at the first use; a change of this module, which says how, makes it anew."""
    how = hashlib.sha256(Path(__file__).read_bytes())
    for module in _PINNED_APART:
        how.update((FOLDER / module / "go.mod").read_bytes())
    folder = build_folder(*MODULES)
    file = folder / f"manifests-{how.hexdigest()[:16]}" / name
    if not file.exists():
        with locked(folder / "lock", progress, "a build"):
            if not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                fresh = file.with_suffix(".new")
                fresh.write_text(make())
                fresh.replace(file)
    return file


def _module_folder(pins: str, module: str, progress: Progress) -> Path:
    """Where Go keeps the module's files; downloads them, checked against go.sum, if they are not there."""
    progress.say(f"reading manifests of {module}")
    command = [str(find_go(progress)), "mod", "download", "-json", module]
    answer = subprocess.run(
        command, cwd=FOLDER / pins, env=go_environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if answer.returncode != 0:
        raise ClusterError(f"{' '.join(command)} in {FOLDER / pins} failed: {answer.stdout}{answer.stderr}")
    return Path(json.loads(answer.stdout)["Dir"])
