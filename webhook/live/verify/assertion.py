"""What an assertion is, and how it is written."""

from __future__ import annotations

import json as standard
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from webhook.check.formats.characters import visible

_LONGEST = 1000  # characters of one line
_MOST_LINES = 30  # of one list of an assertion
_MOST_NAMES = 10


class Outcome(StrEnum):
    PASS = "pass"  # noqa: S105  (an outcome, no password)
    FAIL = "fail"
    NOT_EVALUATED = "not evaluated"


@dataclass(slots=True)
class Assertion:
    """`evidence` is what was seen. `failures` are what is wrong, each with what to do; `unknown` is what could not be
    looked at, and why."""

    id: str
    must: str
    evidence: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    @property
    def outcome(self) -> Outcome:
        """A failure counts also where not everything could be looked at."""
        if self.failures:
            return Outcome.FAIL
        return Outcome.NOT_EVALUATED if self.unknown else Outcome.PASS


def text(namespace: str, assertions: Sequence[Assertion]) -> Iterator[str]:
    """Line by line. Nothing in the cluster can add a line, or act on a terminal."""
    width = max(len(each) for each in Outcome)
    for each in assertions:
        yield f"{each.outcome:<{width}}  {each.must} [{each.id}]"
        indent = " " * (width + 2)
        for word, lines in (("", each.evidence), ("fail: ", each.failures), ("not evaluated: ", each.unknown)):
            yield from (f"{indent}{word}{_line(line)}" for line in lines[:_MOST_LINES])
            if len(lines) > _MOST_LINES:
                yield f"{indent}{word}and {len(lines) - _MOST_LINES:,} more (-o json has all)"
    counts = ", ".join(f"{count(assertions, outcome)} {outcome}" for outcome in Outcome if count(assertions, outcome))
    yield f"namespace {namespace}: {counts}"


def _line(text: str) -> str:
    text = visible(text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def some(names: Iterable[str], most: int = _MOST_NAMES) -> str:
    """'a, b, c and 4 more'."""
    all_names = list(names)
    more = f" and {len(all_names) - most:,} more" if len(all_names) > most else ""
    return ", ".join(all_names[:most]) + more


def count(assertions: Sequence[Assertion], outcome: Outcome) -> int:
    return sum(each.outcome is outcome for each in assertions)


def json(namespace: str, assertions: Sequence[Assertion]) -> str:
    rows: list[dict[str, Any]] = [
        {
            "id": each.id,
            "assertion": each.must,
            "outcome": each.outcome.value,
            "evidence": each.evidence,
            "failures": each.failures,
            "notEvaluated": each.unknown,
        }
        for each in assertions
    ]
    # ASCII alone: what would act on a terminal is escaped, C1 controls and those of direction too.
    return standard.dumps({"namespace": namespace, "assertions": rows}, indent=2)
