"""Fixtures as cases: tests/fixtures/<rule-id>/{pass,fail,fixed}-<case>.yaml, and for each kind of workload
tests/fixtures/kinds/<kind>/{pass,fail,fixed}-<rule-id>.yaml.

A fixture is plain manifests: the last document is the object under judgement, those before it are what differs from the
base cluster. If one of them is the same object, the case is its UPDATE; with `# operation: DELETE` it is deleted.
Comment lines at the top say what must come out: `# deny: …`, `# patch: …` and `# warn: …` are whole messages, in order;
`# policy: {…}` adds keys to the base policy. A fail case without a message would test nothing, so loading refuses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from webhook.engine.evaluate import judge
from webhook.engine.patch import Operation
from webhook.engine.policy import Policy
from webhook.engine.rule import Stage
from webhook.engine.subject import Subject
from webhook.kube.facts import GROUPS, PROJECTIONS, SEEN_AS
from webhook.kube.kueue_facts import KueueConfigurationFact
from webhook.kube.objects import group
from webhook.kube.snapshot import Snapshot
from webhook.policy import parse_policy
from webhook.rules import RULES
from webhook.sources.kueue_configuration import with_configuration

FIXTURES = Path(__file__).parent / "fixtures"
TODAY = date(2026, 11, 29)
Object = dict[str, Any]
Key = tuple[str, str, str, str]
"""Group, kind, namespace and name."""

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""In C where libyaml is: some hundred files are read for each test session."""

SEVERITIES = ("deny", "patch", "warn")


@dataclass(frozen=True)
class Case:
    path: Path
    state: tuple[Object, ...]
    """What the case adds to the base cluster, or replaces in it. It holds the subject too if that is deleted."""

    subject: Object
    old: Object | None
    removal: bool
    expected: tuple[str, ...]
    """'deny: message' and so on."""

    policy: Policy
    extra_policy: Mapping[str, Any]
    """The keys that the case adds to the base policy."""

    @property
    def id(self) -> str:
        return f"{self.path.parent.name}/{self.path.stem}"

    @property
    def rule(self) -> str:
        return self.path.stem.partition("-")[2] if self.path.parents[1].name == "kinds" else self.path.parent.name

    @property
    def outcome(self) -> str:
        return self.path.stem.partition("-")[0]

    @property
    def patched(self) -> bool:
        return any(line.startswith("patch: ") for line in self.expected)

    @property
    def fixed(self) -> Object | None:
        """What a fail case ends as: after the patch or, where only a person can mend it, after that person did."""
        path = self.path.with_name(self.path.name.replace("fail-", "fixed-", 1))
        return read_documents(path)[-1] if self.outcome == "fail" and path.exists() else None


def read_documents(path: Path) -> list[Object]:
    return [document for document in yaml.load_all(path.read_text(), _LOADER) if document is not None]


BASE = tuple(read_documents(FIXTURES / "base" / "cluster.yaml"))
_POLICY = yaml.safe_load((FIXTURES / "base" / "policy.yaml").read_text())


def policy_of(extra: Mapping[str, Any] | None = None) -> Policy:
    return parse_policy(yaml.safe_dump({**_POLICY, **(extra or {})}), "policy.yaml")


def key(value: Object) -> Key:
    metadata = value["metadata"]
    return group(value["apiVersion"]), value["kind"], metadata.get("namespace", ""), metadata["name"]


def read_case(path: Path) -> Case:
    *state, subject = read_documents(path)
    comments = [line[2:] for line in path.read_text().splitlines() if line.startswith("# ")]
    expected = tuple(line for line in comments if line.partition(":")[0] in SEVERITIES)
    extra: dict[str, Any] = next(
        (yaml.safe_load(line)["policy"] for line in comments if line.startswith("policy:")), {}
    )
    old = next((value for value in state if key(value) == key(subject)), None)
    removal = "operation: DELETE" in comments
    if removal:
        state.append(subject)
    case = Case(path, tuple(state), subject, old, removal, expected, policy_of(extra), extra)
    if (case.outcome == "fail") != any(f"[{case.rule}]" in line for line in expected):
        raise ValueError(f"{case.id}: a fail case expects its rule's message, and no other case does")
    return case


def fixtures(pattern: str = "*") -> list[Path]:
    """What matches the pattern in the folders of rules and kinds."""
    found = sorted((*FIXTURES.glob(f"*/{pattern}"), *FIXTURES.glob(f"kinds/*/{pattern}")))
    return [path for path in found if path.is_file() and path.name != "crd.yaml" and path.parent.name != "base"]


@cache
def all_cases() -> tuple[Case, ...]:
    """Read once for every test of a session, so none may change them."""
    return tuple(map(read_case, fixtures()))


def snapshot_of(objects: Iterable[Object]) -> Snapshot:
    """A snapshot in which every kind is known, and in which later objects replace earlier ones of the same name."""
    latest = {key(value): value for value in objects}
    snapshot = Snapshot()
    for kind, project in PROJECTIONS.items():
        facts = [
            project(with_configuration(value))
            for (of, name, _, _), value in latest.items()
            if of == GROUPS[kind] and kind in SEEN_AS.get(name, (name,))
        ]
        snapshot.replace(kind, [fact for fact in facts if fact is not None])
    if not list(snapshot.facts("ConfigMap")):
        snapshot.put("ConfigMap", KueueConfigurationFact())
    return snapshot


def subject_of(value: Object, policy: Policy, old: Object | None = None, removal: bool = False) -> Subject:
    kind = policy.kinds.of(group(value["apiVersion"]), value["kind"])
    assert kind is not None
    namespace = value["metadata"].get("namespace", "")
    return Subject(kind, namespace, value, policy.accelerators, old, removal=removal, kinds=policy.kinds)


@dataclass(frozen=True)
class Outcome:
    """What the two calls come to, one after the other, as the API server makes them."""

    lines: tuple[str, ...]
    patch: tuple[Operation, ...]
    value: Any


def outcome_of(subject: Subject, snapshot: Snapshot, policy: Policy) -> Outcome:
    mutation = judge(RULES, Stage.MUTATE, subject, snapshot, policy, TODAY)
    verdicts = [mutation]
    if mutation.allowed:
        verdicts.append(judge(RULES, Stage.VALIDATE, subject.with_value(mutation.value), snapshot, policy, TODAY))
    lines = [f"{found.severity}: {found.message}" for verdict in verdicts for found in verdict.findings]
    lines += [
        f"warn: {text}" for verdict in verdicts for text in (*verdict.advice, *_unevaluated(verdict.not_evaluated))
    ]
    return Outcome(tuple(lines), mutation.patch, mutation.value)


def _unevaluated(entries: Iterable[Any]) -> list[str]:
    return [entry.message for entry in entries]
