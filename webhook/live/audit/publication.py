"""Keeping the PolicyReports of a cluster as the last audit has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from webhook.kube.objects import Object, mapping, metadata, string
from webhook.live.api import NAMESPACES, Api, ApiError, NotAllowed, Resource
from webhook.live.audit.policy_report import GROUP, LABELS, NAME, OMITTED, VERSION, policy_reports
from webhook.live.audit.report import Audit

WITHIN = Resource(GROUP, VERSION, "policyreports")
ABOVE = Resource(GROUP, VERSION, "clusterpolicyreports")

_NAMED = f"metadata.name={NAME}"
"""RBAC can grant the list of one name alone, if nothing else is asked for."""

_ENDING = "is being terminated"


@dataclass(slots=True)
class Publication:
    """What became of the reports: how many were written, deleted, and already as they should be.

    `served`: whether the cluster has such objects at all. `failures` say of some why they could not be written.
    """

    served: bool = False
    written: int = 0
    deleted: int = 0
    kept: int = 0
    failures: tuple[str, ...] = ()


def publish(api: Api, audit: Audit) -> Publication:
    """Writes what differs, of an audit of all managed namespaces, and deletes what an earlier one wrote elsewhere.

    Where PolicyReports are not served, it does nothing. One of the same name that is not ours is left as it is, and a
    failure. Two may do it at the same time. Raises ApiError where the API
    server does not answer, or does not let us see what is there.
    """
    if VERSION not in api.versions(GROUP):
        return Publication()
    return _Publisher(api).publish(audit)


class _Publisher:
    def __init__(self, api: Api) -> None:
        self._api = api
        self._found = Publication(served=True)

    def publish(self, audit: Audit) -> Publication:
        there = {resource: self._there(resource) for resource in (ABOVE, WITHIN)}
        for report in policy_reports(audit):
            home = string(metadata(report).get("namespace"))
            resource = WITHIN if home else ABOVE
            stored = there[resource].pop(home, None)
            if stored is not None and not _is_ours(stored):
                where = f" in namespace {home}" if home else ""
                self._found.failures += (f'{resource.name} "{NAME}"{where} is not ours: delete it, or do without ours',)
            elif stored is not None and _same(stored, report):
                self._found.kept += 1
            elif not self._write(resource, home, report):
                return self._found
        for home in sorted(home for home, stored in there[WITHIN].items() if _is_ours(stored)):
            if not self._delete(home):
                break
        return self._found

    def _there(self, resource: Resource) -> dict[str, Object]:
        """Those that have our name, by namespace."""
        found = self._api.items(resource, fields=_NAMED)
        return {string(metadata(value).get("namespace")): value for value in found}

    def _write(self, resource: Resource, home: str, report: Object) -> bool:
        """Whether there is any use in going on."""
        try:
            self._api.apply(resource, NAME, report, home)
        except ApiError as error:
            return self._passes(error, resource, home)
        self._found.written += 1
        return True

    def _delete(self, home: str) -> bool:
        """As `_write`."""
        try:
            self._api.delete(WITHIN, NAME, home)
        except ApiError as error:
            # Somebody else may have been faster.
            return error.code == 404 or self._passes(error, WITHIN, home)
        self._found.deleted += 1
        return True

    def _passes(self, error: ApiError, resource: Resource, home: str) -> bool:
        """Notes what failed. A namespace that ends takes its report with it."""
        if not error.code:
            raise error
        lacks = error.code == 404
        if _ENDING in str(error.__cause__) or (lacks and home and self._is_gone(home)):
            return True
        self._found.failures += (f"{error}; see whether its CRD is installed" if lacks else str(error),)
        # It is not allowed, and the kind not served, in the next namespace either.
        return resource is ABOVE or not (lacks or isinstance(error, NotAllowed))

    def _is_gone(self, namespace: str) -> bool:
        try:
            return self._api.get(NAMESPACES, namespace) is None
        except ApiError as error:
            if not error.code:
                raise
            return False


def _is_ours(stored: Object) -> bool:
    labels = mapping(metadata(stored).get("labels"))
    return all(labels.get(name) == value for name, value in LABELS.items())


def _same(stored: Object, report: Object) -> bool:
    """Whether nothing of the report would change what is stored. Others may add annotations of their own."""
    return all(stored.get(field) == report[field] for field in ("summary", "results")) and (
        _omitted(stored) == _omitted(report)
    )


def _omitted(report: Mapping[str, object]) -> object:
    return mapping(metadata(report).get("annotations")).get(OMITTED)
