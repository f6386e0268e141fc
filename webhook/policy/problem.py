"""What is wrong with a policy file, and where."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_MOST = 100
"""Problems that are listed: more than that are one mistake many times over."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One line of a PolicyError. `line` counts from 1; `text` is 'what is wrong; what to do'.

    `place` is the path of the key, or 'column 3' in broken YAML, 'document' or 'file' for the whole.
    """

    line: int
    place: str
    text: str


class PolicyError(ValueError):
    """The policy cannot be used. The message has a line 'FILE:LINE: PLACE: TEXT' for each problem, sorted by line."""

    def __init__(self, name: str, problems: Iterable[Problem]) -> None:
        ordered = sorted(problems, key=lambda problem: problem.line)
        lines = [f"{name}:{problem.line}: {problem.place}: {problem.text}" for problem in ordered[:_MOST]]
        if len(ordered) > _MOST:
            lines.append(f"{name}:{ordered[_MOST].line}: document: has more problems; mend these first")
        super().__init__("\n".join(lines))
