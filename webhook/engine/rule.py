"""What a rule is, and what it says.

A rule is written once and speaks through every door. It only looks: `check` yields violations about the subject alone,
and a violation that can be mended carries its edits as data.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from webhook.engine.patch import Edit
from webhook.engine.policy import Mode, Policy
from webhook.engine.subject import Subject
from webhook.kube.kinds import DEPLOYMENT, Kind
from webhook.kube.objects import Path
from webhook.kube.snapshot import Snapshot


class Stage(StrEnum):
    """The two calls of the API server: /mutate sees the object as the user wrote it, /validate what will be stored."""

    MUTATE = "mutate"
    VALIDATE = "validate"


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that is wrong, and where.

    The message reads '{path}: {must}, is {actual}; fix: {fix}'. `edits` mend it, if anything can. `advice` is never
    more than a warning, whatever the rule's mode. On UPDATE, a violation with the same `identity` (the path, unless
    given) in the old object makes this one old; it got worse if `weight` is above the old one's.
    """

    path: Path
    must: str
    actual: str
    fix: str
    edits: tuple[Edit, ...] = ()
    done: str = ""
    """What the edits do, in words: 'set to 0'."""

    advice: bool = False
    identity: Hashable = None
    weight: int = 0
    shared: Hashable = None
    """What several objects are at fault for together, None if it is this one alone. A door that judges them all at
    once says it once, at the last of them, and at one whose violation is `aside` only if no other says it."""

    aside: bool = False

    @property
    def key(self) -> Hashable:
        return self.path if self.identity is None else self.identity


Check = Callable[[Subject, Snapshot, Policy], Iterable[Violation]]
Survey = Callable[[Sequence[Subject], Snapshot, Policy], Iterable[tuple[Subject, Violation]]]


@dataclass(frozen=True)
class Rule:
    """A rule: its id names the defect, and is its module, its fixture folder, its metric label and its page's
    anchor."""

    id: str
    mode: Mode
    """The mode where the policy says nothing."""

    kinds: tuple[Kind, ...]
    """Rows of the table. The rows that a policy adds are judged as a Deployment is."""

    check: Check
    fixes: bool = False
    """Whether some of its violations carry edits."""

    stage: Stage = Stage.VALIDATE
    """Where it is denied: /mutate only for what Kueue's webhook would rewrite before /validate sees it."""

    removal: bool = False
    """Whether it judges taking an object away (DELETE), and nothing else."""

    judges_change: bool = False
    """Whether check itself compares with the old object: whatever it yields is new."""

    survey: Survey | None = None
    """What is wrong with subjects (of `kinds`) as a whole, each violation with the one it is told at. Asked by a door
    that sees everything at once, beside `check`, and never more than a warning. May raise FactsMissing."""

    needs: frozenset[str] = frozenset()
    """The kinds that it compares the subject with."""

    for_accelerators: bool = False
    """Whether it has nothing to say of what asks for no accelerator."""

    page: str = ""
    """The rule's published page: its first line is the summary for tables."""

    def judges(self, kind: Kind) -> bool:
        return kind in self.kinds or (kind.custom and DEPLOYMENT in self.kinds)

    @property
    def summary(self) -> str:
        return self.page.strip().partition("\n")[0].rstrip(".")


class Rules(tuple[Rule, ...]):
    """Rules in their order, with a table of which of them judge what."""

    def __init__(self, _: Iterable[Rule]) -> None:
        self._asked: dict[tuple[Kind, bool, bool], tuple[Rule, ...]] = {}

    def asked(self, kind: Kind, stage: Stage, removal: bool) -> tuple[Rule, ...]:
        """Those that judge a kind at one of the two calls: /mutate asks only the rules that can say something there,
        /validate asks all."""
        key = kind, stage is Stage.VALIDATE, removal
        found = self._asked.get(key)
        if found is None:
            found = self._asked[key] = tuple(
                rule
                for rule in self
                if rule.judges(kind)
                and rule.removal is removal
                and (stage is Stage.VALIDATE or rule.fixes or rule.stage is Stage.MUTATE)
            )
        return found
