"""The reviews that are sent: recorded from kube-apiserver 1.36, with a number where each has its own."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from tests.rfc6902 import applied

Object = dict[str, Any]
NAMESPACE = "llm-d-optimized-baseline"
MARKER = "000000000042"
"""In uid and name: no two reviews of a run are the same."""

_FOLDER = Path(__file__).with_name("reviews")
_PATCH: list[Object] = [
    {"op": "add", "path": "/spec/template/metadata/labels/kueue.x-k8s.io~1queue-name", "value": "model-a-lq"},
    {"op": "replace", "path": "/spec/strategy/rollingUpdate/maxSurge", "value": 0},
]
"""What the rules make of the Deployment."""


@dataclass(frozen=True, slots=True)
class Case:
    """A review and the webhook that it is sent to."""

    name: str
    path: str
    review: Object

    @property
    def body(self) -> bytes:
        return orjson.dumps(self.review)


def recorded(name: str) -> Object:
    review: Object = json.loads((_FOLDER / f"{name}.json").read_text())
    return review


def mended(review: Object) -> Object:
    """As the validating webhooks see it."""
    later = copy.deepcopy(review)
    later["request"]["object"] = applied(later["request"]["object"], _PATCH)
    return later


def cases() -> tuple[Case, ...]:
    deployment = recorded("deployment")
    return (
        Case("mutating", "/mutate", deployment),
        Case("validating", "/validate", mended(deployment)),
        Case("left alone", "/mutate", recorded("gateway")),
    )


def large(shape: str, size: int = 1 << 20) -> Case:
    """The Deployment, right as it is, with this many bytes more: 'arguments' of 1 KiB, or small 'variables'."""
    review = mended(recorded("deployment"))
    container = review["request"]["object"]["spec"]["template"]["spec"]["containers"][0]
    if shape == "arguments":
        container["args"] = [*container["args"], *("x" * 1021 for _ in range(size // 1024))]
    else:
        entries = ({"name": f"SETTING_{index:06d}", "value": "some value"} for index in range(size // 46))
        container["env"] = [*container["env"], *entries]
    return Case(f"1 MiB of {shape}", "/validate", review)


def post(path: str, body: bytes, host: str, **headers: str) -> bytes:
    """A request over HTTP/1.1. Header names have _ for -."""
    lines = [f"POST {path} HTTP/1.1", f"Host: {host}", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body
