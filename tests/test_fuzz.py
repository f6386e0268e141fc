"""Damaged reviews and objects: every answer is one that the API server can use, and no patch goes where it must not."""

from __future__ import annotations

import base64
import json
import random
import re
import string
import time
from collections.abc import Iterator
from itertools import cycle
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.cases import BASE, FIXTURES, all_cases, policy_of, read_documents, snapshot_of
from tests.door import Door, Object, StillSource, review_of
from tests.kinds import manifest
from tests.rfc6902 import applied
from webhook.kube.kinds import DEPLOYMENT, WORKLOADS
from webhook.kube.names import QUEUE_LABEL

NAMESPACE = "llm-d-optimized-baseline"
DEFAULT_QUEUE = read_documents(FIXTURES / "default-local-queue" / "pass-empty-namespace.yaml")[-1]
SECONDS = 2.0
"""Of a processor, that one answer may take; the usual is a few tenths of a millisecond."""

FUZZ = settings(
    deadline=None,  # time is measured in the test, for each request
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)


def _doors() -> dict[str, Door]:
    """The base cluster, one in which everything is patched that can be, one where Kueue has a default, one held at
    warn, and one where little is known."""
    unknown = snapshot_of(BASE)
    for kind in ("LocalQueue", "ClusterQueue", "Pod"):
        unknown.forget(kind, "may not be listed")
    annotations = {"annotations": {"floorkeeper.io/mode": "warn", "floorkeeper.io/default-queue": "model-a-lq"}}
    warned = [{**BASE[0], "metadata": {**BASE[0]["metadata"], **annotations}}, *BASE[1:]]
    eager = policy_of({"inject": "always", "gpuRequests": "fill", "rollout": {"maxUnavailable": "25%"}})
    return {
        "base": Door(StillSource(snapshot_of(BASE)), policy_of()),
        "eager": Door(StillSource(snapshot_of(BASE)), eager),
        "default": Door(StillSource(snapshot_of([*BASE, DEFAULT_QUEUE])), policy_of({"queues": []})),
        "warn": Door(StillSource(snapshot_of(warned)), policy_of({"queues": []})),
        "unknown": Door(StillSource(unknown), policy_of()),
    }


@pytest.fixture(scope="module")
def doors() -> Iterator[dict[str, Door]]:
    made = _doors()
    yield made
    for door in made.values():
        door.close()


DOORS = ("base", "eager", "default", "warn", "unknown")

# Whatever a fixture judges, as it is written and as an UPDATE.
_CASES = [(case.subject, case.old) for case in all_cases()]
REVIEWS: list[Object] = [
    *(review_of(value, old) for value, old in _CASES),
    *(review_of(value, value) for value, old in _CASES if old is None),
]

_NAMES = [
    *("metadata", "labels", "annotations", "spec", "template", "selector", "matchLabels", "matchExpressions"),
    *("strategy", "rollingUpdate", "maxSurge", "maxUnavailable", "containers", "initContainers"),
    *("resources", "requests", "limits", "env", "name", "value", "valueFrom", "volumes", "hostPath", "path"),
    *("ownerReferences", "controller", "hard"),
    *("nvidia.com/gpu", "requests.nvidia.com/gpu", "nvidia.com/mig-1g.10gb", QUEUE_LABEL, "a/b~c", "", "status"),
    *("replicas", "deletionTimestamp", "generateName", "namespace", "kind", "restartPolicy", "runtimeClassName"),
]
_TEXTS = [
    *("0", "1", "-1", "0%", "100%", "25%", "1.5", "1e3", "1e999999", "2E6024865272343", "0x1", "1Ki", "all", "void"),
    *("model-a-lq", "model-b-lq", "default", "no-such-queue", "*", "Always", "RollingUpdate", "Recreate", "nvidia"),
    *("/dev", "/dev/nvidia0", "apps/v1", "x" * 300, "a\nb", "\x00\x1b[2J", "\u202e", "\u2028", "\ud800", "é模", "{}"),
]
_LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, -1, 2**31, 2**63, 2**64, -(2**63) - 1, 10**400]),
    st.sampled_from([0.5, -0.0, 1e308, float("inf"), float("nan")]),
    st.integers(),
    st.floats(),
    st.sampled_from(_TEXTS),
    st.text(max_size=8),
)
VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(_NAMES) | st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value inside a value."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, key)
        yield from places(inner, (*path, key))


def damage(document: Object, where: int, what: str, by: Any) -> None:
    """Changes one place of a review: most often inside the object, where there are most places."""
    found = list(places(document))
    if not found:
        return
    path = found[where % len(found)]
    parent: Any = document
    for step in path[:-1]:
        parent = parent[step]
    last = path[-1]
    if what == "delete":
        del parent[last]
    elif what == "double" and isinstance(parent, list):
        parent.append(parent[last])
    elif what == "shuffle" and isinstance(parent, list):
        parent.reverse()
    elif what == "add" and isinstance(parent[last], dict):
        parent[last][_NAMES[where % len(_NAMES)]] = by
    elif what == "rename" and isinstance(parent, dict):
        parent[_NAMES[where % len(_NAMES)]] = parent.pop(last)
    else:
        parent[last] = by


_KINDS_OF_DAMAGE = ["delete", "replace", "replace", "add", "double", "shuffle", "rename"]
DAMAGE = st.tuples(st.integers(0, 2**20), st.sampled_from(_KINDS_OF_DAMAGE), VALUES)


@st.composite
def damaged(draw: st.DrawFn) -> Object:
    document: Object = json.loads(json.dumps(draw(st.sampled_from(REVIEWS))))
    for where, what, by in draw(st.lists(DAMAGE, min_size=1, max_size=4)):
        # An object refers to what it was: without a copy, a damaged old object would damage the new one.
        damage(document, where, what, json.loads(json.dumps(by)))
    return document


def answer(door: Door, path: str, body: bytes) -> tuple[int, Any]:
    """The answer, which comes in time and is JSON, and if it is no review, is an error in words."""
    started = time.process_time()
    status, headers, found = door.send(path, body)
    assert time.process_time() - started < SECONDS
    assert status in (200, 400), (status, found)
    assert headers["content-type"] == "application/json"
    document = json.loads(found)
    if status == 400:
        assert list(document) == ["error"]
        assert 0 < len(document["error"]) < 400
        assert document["error"].isprintable()
    return status, document


def well_formed(document: Any, uid: str, path: str) -> Object:
    """The response, which is one that the API server takes whole."""
    assert (document["apiVersion"], document["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response: Object = document["response"]
    assert response["uid"] == uid
    assert ("patch" in response) == ("patchType" in response)
    assert path == "/mutate" or "patch" not in response
    warnings = response.get("warnings", [])
    assert all(0 < len(text) <= 255 and text.isprintable() for text in warnings)
    assert sum(map(len, warnings)) < 4096
    assert len(set(warnings)) == len(warnings)
    assert response["allowed"] == ("status" not in response)
    if not response["allowed"]:
        status = response["status"]
        assert (status["code"], status["reason"], status["status"]) == (403, "Forbidden", "Failure")
        assert 0 < len(status["message"].encode()) <= 8192
        assert all(line.isprintable() for line in status["message"].split("\n"))
        assert status["details"]["causes"]
        # Nobody is told of a patch that was not made.
        assert "patch" not in response
        assert "patched" not in response["auditAnnotations"]
        assert not any("; patched: " in text for text in warnings)
    return response


PATCHABLE = re.compile(
    r"/metadata(/labels(/kueue\.x-k8s\.io~1queue-name)?)?"
    r"|/spec/(template|jobTemplate|tasks/\d+/template)/metadata(/labels(/kueue\.x-k8s\.io~1queue-name)?)?"
    r"|/spec/strategy(/rollingUpdate(/max(Surge|Unavailable))?|/canary/max(Surge|Unavailable)|/type)?"
    r"|/spec/rolloutStrategy(/rollingUpdateConfiguration(/max(Surge|Unavailable))?)?"
    r"|/spec(/[^/]+)*/(containers|initContainers|sidecars)/\d+/resources(/requests(/[^/]+)?|/limits(/[^/]+)?)?"
    r"|/spec/(predictor/[a-z]+/resources|(rayCluster[A-Za-z]+/)?autoscalerOptions/resources|trainer/resourcesPerNode)(/requests(/[^/]+)?|/limits(/[^/]+)?)?"
)
OWN_LABEL = {(row.group, row.kind) for row in WORKLOADS if row.label == ()} | {("", "Pod")}
"""Where the label goes onto the object itself."""


def check_patch(before: Object, after: Object, patch: list[Object], kind: Object) -> None:
    """The patch sets few fields and no others: never a selector, nor the object's labels where pods have their own."""
    for operation in patch:
        assert PATCHABLE.fullmatch(operation["path"]), operation
    if (kind["group"], kind["kind"]) not in OWN_LABEL:
        assert before.get("metadata") == after.get("metadata")
    assert _at(before, "spec", "selector") == _at(after, "spec", "selector")
    replaced = tuple(operation["path"] for operation in patch)
    assert lists(before, replaced) == lists(after, replaced)


def _at(value: Any, *path: str) -> Any:
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def lists(value: Any, but: tuple[str, ...]) -> dict[str, list[Any]]:
    """Every list, by its JSON pointer, as the names in it; but for what is set at or below some pointers."""
    found = {}
    for path in places(value):
        inner = value
        for step in path:
            inner = inner[step]
        pointer = "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)
        if isinstance(inner, list) and not pointer.startswith(but):
            found[pointer] = [_at(item, "name") for item in inner]
    return found


def check(door: Door, document: Object) -> None:
    """Both calls of the API server, one after the other, with what must hold of them."""
    body = json.dumps(document).encode()
    status, found = answer(door, "/mutate", body)
    if status != 200:
        assert answer(door, "/validate", body)[0] == status
        return
    # What the API server would have read, last key first and all.
    request = document["request"]
    mutated = well_formed(found, request["uid"], "/mutate")
    assert answer(door, "/mutate", body)[1] == found
    namespace = request.get("namespace") or _at(request.get("object"), "metadata", "namespace")
    if request["kind"]["kind"] != "Namespace" and namespace != NAMESPACE:
        assert mutated == {"uid": request["uid"], "allowed": True}
    if "patch" in mutated:
        patch = json.loads(base64.b64decode(mutated["patch"]))
        after = applied(request["object"], patch)
        check_patch(request["object"], after, patch, request["kind"])
        body = json.dumps({**document, "request": {**request, "object": after}}).encode()
        again = well_formed(answer(door, "/mutate", body)[1], request["uid"], "/mutate")
        assert "patch" not in again
    if mutated["allowed"]:
        validated = well_formed(answer(door, "/validate", body)[1], request["uid"], "/validate")
        assert not set(mutated.get("warnings", [])) & set(validated.get("warnings", []))


@pytest.mark.parametrize("name", DOORS)
def test_good_reviews(doors: dict[str, Door], name: str) -> None:
    for document in REVIEWS:
        check(doors[name], document)


@settings(FUZZ, max_examples=300)
@given(name=st.sampled_from(DOORS), document=damaged())
def test_damaged_reviews(doors: dict[str, Door], name: str, document: Object) -> None:
    check(doors[name], document)


@settings(FUZZ, max_examples=100)
@given(name=st.sampled_from(DOORS), path=st.sampled_from(["/mutate", "/validate"]), body=st.binary(max_size=200))
@example(name="base", path="/mutate", body=b"")
@example(name="base", path="/mutate", body=b"\xef\xbb\xbf{}")
def test_random_bytes(doors: dict[str, Door], name: str, path: str, body: bytes) -> None:
    assert answer(doors[name], path, body)[0] == 400


@settings(FUZZ, max_examples=200)
@given(seed=st.integers(0, 2**32), name=st.sampled_from(DOORS), path=st.sampled_from(["/mutate", "/validate"]))
def test_damaged_bytes(doors: dict[str, Door], seed: int, name: str, path: str) -> None:
    """A good body with bytes taken out, doubled, or replaced: duplicate keys and broken strings come of it."""
    dice = random.Random(seed)
    body = bytearray(json.dumps(dice.choice(REVIEWS), indent=dice.choice([None, 1])).encode())
    for _ in range(dice.randint(1, 6)):
        start = dice.randrange(len(body))
        end = start + dice.choice([1, 1, 10, 300])
        piece = bytes(body[start:end])
        noise = dice.choice(string.printable).encode()
        body[start:end] = dice.choice([b"", piece * 2, noise, bytes([dice.randrange(256)])])
    status, found = answer(doors[name], path, bytes(body))
    if status == 200:
        well_formed(found, found["response"]["uid"], path)


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
class TestExtremes:
    @pytest.mark.parametrize("depth", [250, 900, 1100])
    @pytest.mark.parametrize(("start", "end"), [("[", "]"), ('{"a":', "}")])
    def test_depth(self, doors: dict[str, Door], path: str, depth: int, start: str, end: str) -> None:
        inner = start * depth + "1" + end * depth
        for name, document in zip(cycle(DOORS), REVIEWS[::13], strict=False):
            text = json.dumps(document)
            for field in ("labels", "template", "metadata", "resources", "requests", "containers", "hard", "maxSurge"):
                deep = re.sub(rf'"{field}": ', f'"{field}": {inner}, "was": ', text)
                answer(doors[name], path, deep.encode())

    def test_keys_that_come_twice(self, doors: dict[str, Door], path: str) -> None:
        """The last one counts, as it does for the API server."""
        for name, document in zip(cycle(DOORS), REVIEWS[::7], strict=False):
            text = json.dumps(document)
            for field in ("uid", "object", "metadata", "labels", "template", "requests", "maxSurge"):
                twice = re.sub(rf'"{field}": ', f'"{field}": null, "{field}": ', text)
                assert answer(doors[name], path, twice.encode()) == answer(doors[name], path, text.encode())

    @pytest.mark.parametrize("name", ["base", "eager"])
    def test_breadth(self, doors: dict[str, Door], name: str, path: str) -> None:
        """Thousands of containers, labels, volumes and expressions, each with something to say of it."""
        value = json.loads(json.dumps(manifest(DEPLOYMENT)))
        pod = value["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        bad = {"name": "x" * 100, "resources": {"limits": {"nvidia.com/gpu": "1.5"}}}
        pod["containers"] = [container, *([bad] * 5000)]
        pod["volumes"] = [{"name": f"v{index}", "hostPath": {"path": "/dev/nvidia0"}} for index in range(5000)]
        value["metadata"]["labels"] = {f"l{index}": "x" for index in range(5000)}
        value["spec"]["selector"]["matchExpressions"] = [{"key": QUEUE_LABEL}] * 5000
        status, found = answer(doors[name], path, json.dumps(review_of(value)).encode())
        assert status == 200
        well_formed(found, found["response"]["uid"], path)
