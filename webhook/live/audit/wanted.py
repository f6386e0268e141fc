"""Which kinds an audit lists: those that rules compare with, and those that they judge, each once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from webhook.engine.policy import Policy
from webhook.kube.kinds import BUILT_IN, Kind
from webhook.live.api import Resource
from webhook.rules import RULES
from webhook.sources.access import ACCESS, Access

_FIRST = ("namespaces",)
"""Which namespaces are managed decides what is kept of the other kinds."""


@dataclass(slots=True)
class Wanted:
    """One kind of the API. It is compared with (`facts`), judged (`row`), or both."""

    group: str
    plural: str
    facts: list[Access] = field(default_factory=list)
    row: Kind | None = None

    @property
    def name(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def fields(self) -> str:
        """The field selector that loses nothing of it."""
        found = {access.selectors.get("fieldSelector", "") for access in self.facts}
        return found.pop() if len(found) == 1 else ""

    @property
    def required(self) -> bool:
        """Whether rules cannot do without it where it is not served."""
        return any(access.optional and not access.absent_is_none for access in self.facts)

    @property
    def product(self) -> str:
        """What would bring it."""
        return self.facts[0].product if self.facts else self.group

    @property
    def kind(self) -> str:
        return self.row.kind if self.row is not None else self.facts[0].kind

    @property
    def known_versions(self) -> tuple[str, ...]:
        return self.facts[0].versions if self.facts else self.row.versions if self.row is not None else ()

    def resource(self, versions: Callable[[str], tuple[str, ...]]) -> Resource | None:
        """How to list it, None where it is not served in a version that is known. `versions` asks for those of a
        group, and is not asked about groups that every cluster has."""
        known = self.known_versions
        if self.group in BUILT_IN or not self._optional:
            return Resource(self.group, known[0], self.plural)
        served = versions(self.group)
        # Facts name the best version first; a row of the table lists what webhooks ask about, in no order.
        order = (each for each in known if each in served) if self.facts else (each for each in served if each in known)
        version = next(order, "")
        return Resource(self.group, version, self.plural) if version else None

    @property
    def _optional(self) -> bool:
        return self.row is not None or any(access.optional for access in self.facts)


def needs(policy: Policy) -> frozenset[str]:
    """The kinds of facts that the rules of an audit compare with: nothing is being deleted."""
    found = frozenset({"Namespace"}).union(*(rule.needs for rule in RULES if not rule.removal))
    return found | {"UnqueuedPod"} if policy.capacity.discount_unqueued else found


def wanted_kinds(policy: Policy) -> list[Wanted]:
    """Namespaces come first."""
    found: dict[tuple[str, str], Wanted] = {}

    def of(group: str, plural: str) -> Wanted:
        return found.setdefault((group, plural), Wanted(group, plural))

    for kind in sorted(needs(policy)):
        of(ACCESS[kind].group, ACCESS[kind].resource).facts.append(ACCESS[kind])
    for row in policy.kinds.rows:
        of(row.group, row.resource).row = row
    return sorted(found.values(), key=lambda each: each.plural not in _FIRST)
