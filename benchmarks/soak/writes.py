"""The writes of the soak, all of them dry runs, and which answers to them are right."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import yaml

Object = dict[str, Any]
NAMESPACE = "llm-d-optimized-baseline"
GPU = "nvidia.com/gpu"
_GUIDE = Path(__file__).parents[2] / "tests" / "guide"
_DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
_QUEUE = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/llm-d-model-a-cq"
_JSON, _MERGE = "application/json", "application/merge-patch+json"

POLICY = f"""
apiVersion: floorkeeper.io/v1alpha1
kind: Policy
queues:
- {{namespace: {NAMESPACE}, workload: "*", localQueue: model-a-lq}}
gracePeriod: {{minimumSeconds: 60}}
"""


@dataclass(frozen=True, slots=True)
class Write:
    name: str
    method: str
    path: str
    content_type: str
    body: bytes
    is_right: Callable[[int, bytes], bool]
    """By the code and the body of the API server's answer."""


def _read(name: str) -> list[Object]:
    return list(yaml.safe_load_all((_GUIDE / name).read_text()))


def objects() -> list[Object]:
    """What is there before: the guide's budget, but for one GPU that nobody may claim, and its model."""
    quota = _read("quota.yaml")
    for value in quota:
        if value["metadata"]["name"] == "llm-d-model-a-cq":
            _set_floor(value, 4)
    return [*quota, _stored()]


def _set_floor(queue: Object, floor: int) -> None:
    queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = floor


def _stored() -> Object:
    """Model A as the guide has it."""
    (model,) = _read("model-a.yaml")
    return model


def _unlabelled() -> Object:
    """As a developer writes it who knows nothing of Kueue."""
    value = copy.deepcopy(_stored())
    value["metadata"] = {"name": "model-c", "namespace": NAMESPACE}
    value["spec"]["template"]["metadata"]["labels"] = {"llm-d.ai/model": "a"}
    del value["spec"]["strategy"]
    return value


def writes() -> list[Write]:
    """In the order and in the numbers in which they come again and again: a hundred of them."""
    clean = copy.deepcopy(_stored())
    clean["metadata"]["name"] = "model-d"
    no_request = copy.deepcopy(clean)
    del no_request["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]
    image = copy.deepcopy(_stored())
    image["spec"]["template"]["spec"]["containers"][0]["image"] += "-1"
    label = b'"kueue.x-k8s.io/queue-name":"model-a-lq"'

    def patched(code: int, body: bytes) -> bool:
        return code == 201 and label in body and b'"maxSurge":0' in body

    def denied(rule: bytes) -> Callable[[int, bytes], bool]:
        return lambda code, body: code == 403 and b"[%b]" % rule in body

    numbers = {
        _post("create, patched", _unlabelled(), patched): 40,
        _post("create, as it should be", clean, lambda code, body: code == 201 and label in body): 29,
        _post("create, denied", no_request, denied(b"implicit-gpu-request")): 16,
        Write(
            "update", "PUT", f"{_DEPLOYMENTS}/{image['metadata']['name']}", _JSON, orjson.dumps(image),
            lambda code, body: code == 200 and b'.0-1"' in body,
        ): 13,
        _raise("raise that fits", 5, lambda code, _: code == 200): 1,
        _raise("raise, denied", 6, denied(b"floors-exceed-capacity")): 1,
    }  # fmt: skip
    found = [write for write, number in numbers.items() for _ in range(number)]
    random.Random(6).shuffle(found)
    return found


def _post(name: str, value: Object, is_right: Callable[[int, bytes], bool]) -> Write:
    return Write(name, "POST", _DEPLOYMENTS, _JSON, orjson.dumps(value), is_right)


def _raise(name: str, floor: int, is_right: Callable[[int, bytes], bool]) -> Write:
    (queue,) = (value for value in objects() if value["metadata"]["name"] == "llm-d-model-a-cq")
    _set_floor(queue, floor)
    patch = {"spec": {"resourceGroups": queue["spec"]["resourceGroups"]}}
    return Write(name, "PATCH", _QUEUE, _MERGE, orjson.dumps(patch), is_right)
