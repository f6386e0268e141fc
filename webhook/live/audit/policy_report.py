"""An audit as PolicyReports (wgpolicyk8s.io/v1alpha2), for dashboards that read those of every policy engine. Pure.

One PolicyReport for each namespace that was looked at, also where nothing is wrong, so that writing all of them takes
away what is mended; one ClusterPolicyReport for all else. They say nothing of when: the same findings make the same
objects, and nothing has to be written.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from webhook.engine.verdict import Severity
from webhook.live.audit.report import SETUP, Audit, AuditFinding, Exempted, NotEvaluated, Reference

GROUP, VERSION = "wgpolicyk8s.io", "v1alpha2"
API_VERSION = f"{GROUP}/{VERSION}"
NAME = "floorkeeper"
"""Of every report, and the label by which those that are no longer wanted are found."""

LABELS = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/managed-by": NAME}
LARGEST = 1_000_000
"""Bytes of one report's results, which has to fit into etcd's 1.5 MiB. The summary counts all of them."""

OMITTED = "floorkeeper.io/omitted-results"
"""The annotation that says how many results there was no room for."""

_MOST_RESOURCES = 20  # of one result; its property `count` counts all of them
_LONGEST_MESSAGE = 1500  # characters: that of exceeded floors names every queue
_RESULTS = {Severity.DENY: "fail", Severity.PATCH: "warn", Severity.WARN: "warn"}
_SEVERITIES = {Severity.DENY: "high", Severity.PATCH: "medium", Severity.WARN: "medium"}
_OUTCOMES = ("fail", "warn", "error", "skip", "pass")
"""In the order in which results are kept where there is no room for all."""


Object = dict[str, Any]


def policy_reports(audit: Audit) -> list[Object]:
    """The ClusterPolicyReport, and a PolicyReport for each managed namespace, by name."""
    within: dict[str, list[Object]] = {namespace: [] for namespace in audit.namespaces}
    above: list[Object] = []
    for found in audit.findings:
        within.get(found.namespace, above).append(_found(found))
    for entry in audit.exempted:
        within.get(entry.object.namespace, above).append(_exempted(entry))
    above += map(_not_evaluated, audit.not_evaluated)
    return [
        _report("ClusterPolicyReport", "", above),
        *(_report("PolicyReport", namespace, results) for namespace, results in sorted(within.items())),
    ]


def _report(kind: str, namespace: str, results: Sequence[Object]) -> Object:
    counts = Counter(result["result"] for result in results)
    kept = list(_as_many_as_fit(sorted(results, key=lambda result: _OUTCOMES.index(result["result"]))))
    omitted = len(results) - len(kept)
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {
            "name": NAME,
            **({"namespace": namespace} if namespace else {}),
            "labels": dict(LABELS),
            **({"annotations": {OMITTED: str(omitted)}} if omitted > 0 else {}),
        },
        "summary": {outcome: counts[outcome] for outcome in _OUTCOMES},
        "results": kept,
    }


def _as_many_as_fit(results: Iterable[Object]) -> Iterator[Object]:
    room = LARGEST
    for result in results:
        room -= len(json.dumps(result).encode())
        if room < 0:
            return
        yield result


def _found(found: AuditFinding) -> Object:
    return _result(
        found.rule, _RESULTS[found.severity], _SEVERITIES[found.severity], found.message, found.objects, found.count
    )


def _exempted(entry: Exempted) -> Object:
    rules = ", ".join(entry.rules) or "no rule"
    message = f"exempt: {entry.reason}; {rules} would have spoken"
    return _result("exempt", "skip", "low", message, [entry.object], 1)


def _not_evaluated(entry: NotEvaluated) -> Object:
    # In the words of the API, a skip was not asked for, and an error is what could not be evaluated.
    return _result(entry.what, "error", "low", f"not evaluated: {entry.reason}", [], entry.objects)


def _result(rule: str, outcome: str, severity: str, message: str, about: Sequence[Reference], count: int) -> Object:
    if len(message) > _LONGEST_MESSAGE:
        message = f"{message[: _LONGEST_MESSAGE - 1]}…"
    return {
        "source": NAME,
        "policy": NAME,
        "rule": rule,
        "category": "Set-up" if rule.startswith(SETUP) else "Kueue quota",
        "severity": severity,
        "result": outcome,
        "scored": outcome == "fail",
        "message": message,
        **({"resources": list(_resources(about))} if about else {}),
        "properties": {"count": str(count)},
    }


def _resources(about: Iterable[Reference]) -> Iterator[Object]:
    for each in list(about)[:_MOST_RESOURCES]:
        namespace = {"namespace": each.namespace} if each.namespace else {}
        yield {"apiVersion": each.api_version, "kind": each.kind, **namespace, "name": each.name}
