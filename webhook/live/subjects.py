"""Objects as the rules would judge them where all of them are in force: in whatever namespace, and for whoever."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from webhook.engine.evaluate import judge
from webhook.engine.policy import Mode, Policy
from webhook.engine.rule import Stage
from webhook.engine.subject import Subject
from webhook.engine.verdict import Verdict
from webhook.kube.kinds import Kind
from webhook.kube.objects import Object
from webhook.kube.selector import LabelSelector
from webhook.kube.snapshot import Snapshot
from webhook.rules import RULES


def in_force(policy: Policy, denied: Iterable[str]) -> Policy:
    """The policy as for a managed namespace without exemptions, and with these rules at deny."""
    rules: Mapping[str, Mode] = {**policy.rules, **dict.fromkeys(denied, Mode.DENY)}
    return replace(policy, managed_namespaces=LabelSelector(), exemptions=(), rules=rules)


def without_mode(snapshot: Snapshot, namespace: str) -> None:
    """Takes floorkeeper.io/mode off the namespace in the snapshot: it holds denials back, and hides none."""
    found = snapshot.namespace(namespace)
    if found is not None:
        snapshot.put("Namespace", replace(found, mode=""))


def verdict(
    kind: Kind,
    namespace: str,
    value: Object,
    snapshot: Snapshot,
    policy: Policy,
    *,
    stage: Stage = Stage.VALIDATE,
    old: Object | None = None,
    rules: frozenset[str] | None = None,
) -> Verdict:
    """What the rules, or these of them, say of an object that is written so; `old` is what it was, None at CREATE."""
    subject = Subject(kind, namespace, value, policy.accelerators, old, kinds=policy.kinds)
    asked = [rule for rule in RULES if not rule.removal and (rules is None or rule.id in rules)]
    return judge(asked, stage, subject, snapshot, policy, datetime.now(UTC).date())


def needs_of(*kinds: Kind) -> frozenset[str]:
    """The kinds that rules about these kinds compare with."""
    return frozenset[str]().union(*(rule.needs for rule in RULES if not rule.removal and any(map(rule.judges, kinds))))
