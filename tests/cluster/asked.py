"""What commands ask of the API server, as the rights that whoever runs them needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from tests.cluster.between import Passed
from webhook.engine.policy import Policy
from webhook.live.audit.wanted import wanted_kinds

_VERBS = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}
_ALL_KINDS = "list: every kind of [what Floorkeeper reads](#what-it-may-read-and-write) and of [Kinds](#kinds), "


@dataclass(frozen=True, order=True)
class Right:
    verb: str
    resource: str
    """As RBAC and kubectl name it."""

    namespace: str
    """'' for all of the cluster."""


def right_of(method: str, path: str) -> Right | None:
    """None for what every user may ask: which API there is."""
    _, root, *parts = path.split("/")
    group, rest = ("", parts[1:]) if root == "api" else (parts[0], parts[2:])
    if not rest:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        _, namespace, *rest = rest
    verb = _VERBS.get(method, "get" if len(rest) > 1 else "list")
    return Right(verb, f"{rest[0]}.{group}" if group else rest[0], namespace)


@dataclass
class Asked:
    """`command` is the one that runs now."""

    command: str = ""
    rights: dict[str, set[Right]] = field(default_factory=lambda: defaultdict(set))

    def note(self, passed: Passed) -> None:
        right = right_of(passed.method, passed.path)
        if right is not None:
            self.rights[self.command].add(right)

    def table(self, home: str) -> str:
        """In Markdown; `home` is the namespace that they were about."""
        rows = ["| command | of all the cluster | of the namespace | of one name | writes |"]
        rows.append("| --- | --- | --- | --- | --- |")
        for command, rights in sorted(self.rights.items()):
            reads = {right for right in rights if right.verb in ("get", "list")}
            cluster = {right for right in reads if not right.namespace}
            inside = {right for right in reads if right.namespace == home}
            cells = [
                _audits(cluster) if command == "audit" else _listed(cluster),
                _listed(inside),
                ", ".join(f"{each.resource} in {each.namespace}" for each in sorted(reads - cluster - inside)),
                _listed(rights - reads),
            ]
            rows.append(f"| `{command}` | {' | '.join(cells)} |")
        return "\n".join(rows) + "\n"


def _listed(rights: Collection[Right]) -> str:
    return "; ".join(_by_verb(rights))


def _by_verb(rights: Collection[Right]) -> Iterator[str]:
    for verb in ("list", "get", "create", "patch", "delete"):
        names = sorted({right.resource for right in rights if right.verb == verb})
        if names:
            yield f"{verb}: {', '.join(f'`{name}`' for name in names)}"


def _audits(rights: Collection[Right]) -> str:
    """Only kinds that the cluster has are asked for, so all of them are named by where they are listed."""
    known = {each.name for each in wanted_kinds(Policy())}
    return _ALL_KINDS + _listed([right for right in rights if right.resource not in known]).removeprefix("list: ")
