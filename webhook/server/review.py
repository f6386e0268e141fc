"""An AdmissionReview v1 request, as the API server sends it: bytes in, a checked Review out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from webhook.kube.objects import Object, metadata, string
from webhook.server.text import printable

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")

_LONGEST_UID = 512  # characters; the API server sends a UUID of 36
_LONGEST_QUOTE = 64  # characters of a wrong value that an error repeats


class MalformedReview(ValueError):
    """The body is nothing that the API server sends: the message says what is wrong, and in which field."""


class Review(NamedTuple):
    """The parts of a request that Floorkeeper looks at. Strings that are absent are ''.

    `name` is '' at a CREATE with generateName. `namespace` is '' for cluster-scoped kinds, except that a Namespace is
    in itself, as the API server sees it. `value` is None at DELETE and CONNECT, `old` at CREATE.
    """

    uid: str
    operation: str
    group: str
    kind: str
    sub_resource: str
    namespace: str
    name: str
    user: str
    groups: frozenset[str]
    dry_run: bool
    value: Object | None
    old: Object | None


def review(body: bytes | bytearray) -> Review:
    """The review that a request's body holds. Raises MalformedReview. Fields that are not known are passed over."""
    request = _request(body)
    uid = request.get("uid")
    if not isinstance(uid, str) or not uid:
        raise MalformedReview("request.uid: must be a non-empty string")
    if len(uid) > _LONGEST_UID:
        raise MalformedReview(f"request.uid: must have at most {_LONGEST_UID} characters, has {len(uid)}")
    operation = request.get("operation")
    if operation not in OPERATIONS:
        raise MalformedReview(f"request.operation: must be one of {', '.join(OPERATIONS)}, is {_shown(operation)}")
    kind = request.get("kind")
    if not isinstance(kind, dict):
        raise MalformedReview(f"request.kind: must be a mapping, is {_shown(kind)}")
    user = _mapping(request, "userInfo", "request.") or {}
    value = _object(request, operation)
    old = _mapping(request, "oldObject", "request.")
    if operation == "UPDATE" and old is None:
        # Without it a running workload would pass for a new one.
        raise MalformedReview("request.oldObject: must be a mapping for UPDATE, is null")
    return Review(
        uid=uid,
        operation=operation,
        group=_string(kind, "group", "request.kind."),
        kind=_kind(kind),
        sub_resource=_string(request, "subResource", "request."),
        # A review that somebody wrote by hand may say it in the object alone.
        namespace=_string(request, "namespace", "request.") or string(metadata(value or {}).get("namespace")),
        name=_string(request, "name", "request."),
        user=_string(user, "username", "request.userInfo."),
        groups=_groups(user),
        dry_run=_dry_run(request),
        value=value,
        old=old,
    )


def _request(body: bytes | bytearray) -> Mapping[str, Any]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise MalformedReview(f"body: is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise MalformedReview(f"body: must be a mapping, is {_shown(document)}")
    for name, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        if document.get(name) != wanted:
            raise MalformedReview(f"{name}: must be {wanted}, is {_shown(document.get(name))}")
    request = document.get("request")
    if not isinstance(request, dict):
        raise MalformedReview(f"request: must be a mapping, is {_shown(request)}")
    return request


def _kind(kind: Mapping[str, Any]) -> str:
    _string(kind, "version", "request.kind.")
    name = _string(kind, "kind", "request.kind.")
    if not name:
        raise MalformedReview("request.kind.kind: must be a non-empty string")
    return name


def _object(request: Mapping[str, Any], operation: str) -> Object | None:
    value = _mapping(request, "object", "request.")
    if value is None and operation in ("CREATE", "UPDATE"):
        raise MalformedReview(f"request.object: must be a mapping at {operation}, is null")
    return value


def _groups(user: Mapping[str, Any]) -> frozenset[str]:
    groups = user.get("groups")
    if groups is None:
        return frozenset()
    if not isinstance(groups, list) or not all(isinstance(name, str) for name in groups):
        raise MalformedReview("request.userInfo.groups: must be a list of strings")
    return frozenset(groups)


def _dry_run(request: Mapping[str, Any]) -> bool:
    value = request.get("dryRun")
    if value is not None and not isinstance(value, bool):
        raise MalformedReview(f"request.dryRun: must be true or false, is {_shown(value)}")
    return bool(value)


def _mapping(fields: Mapping[str, Any], name: str, where: str) -> Object | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, dict):
        raise MalformedReview(f"{where}{name}: must be a mapping, is {_shown(value)}")
    return value


def _string(fields: Mapping[str, Any], name: str, where: str) -> str:
    value = fields.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MalformedReview(f"{where}{name}: must be a string, is {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    if isinstance(value, str):
        return f'"{printable(value, _LONGEST_QUOTE)}"'
    return "null" if value is None else printable(orjson.dumps(value).decode(), _LONGEST_QUOTE)
