"""The rules as a terminal and programs are shown them. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from webhook.engine.rule import Rule
from webhook.kube.kinds import Kind
from webhook.rules import RULES

_WIDEST = 100  # columns: longer lines are hard to read
_GAP = "  "


class UnknownRule(Exception):
    """Nothing has this id. The message says which comes near, or how to list them."""


@dataclass(frozen=True, slots=True)
class Page:
    """What is published of one id: paragraphs of prose, and facts about it that are none."""

    id: str
    text: str
    facts: tuple[str, ...] = ()

    def fitted(self, width: int) -> str:
        """In at most so many columns."""
        width = min(width, _WIDEST)
        return "\n\n".join(
            textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)
            for text in (self.id, *self.text.strip().split("\n\n"), *self.facts)
        )


def page(name: str, pages: Sequence[Page]) -> Page:
    """The one with this id, which may be in brackets, as messages have it. Raises UnknownRule."""
    name = name.strip("[]")
    for each in pages:
        if each.id == name:
            return each
    ids = [each.id for each in pages]
    near = sorted((each for each in ids if name and name in each), key=len) or get_close_matches(name, ids, 1)
    hint = f"did you mean {near[0]}?" if near else "floorkeeper rules lists them"
    raise UnknownRule(f"no rule and no check of the set-up is named {name!r}; {hint}")


def rule_pages() -> list[Page]:
    return [Page(rule.id, rule.page, tuple(_facts(rule))) for rule in RULES]


def _names(kinds: Sequence[Kind]) -> Iterator[str]:
    """Kinds as people call them, with the group where two are called alike or a built-in one is."""
    seen: set[str] = {"Service"}
    for kind in kinds:
        yield f"{kind.kind} of {kind.group}" if kind.kind in seen else kind.kind
        seen.add(kind.kind)


def _facts(rule: Rule) -> Iterator[str]:
    patched = ", and what can be patched is" if rule.fixes else ""
    yield f"Default: {rule.mode}{patched}. The policy changes it: `rules: {{{rule.id}: deny | warn | off}}`."
    yield f"Judged{' when deleted' if rule.removal else ''}: {', '.join(_names(rule.kinds))}."
    if rule.needs:
        yield f"Compared with: {', '.join(sorted(rule.needs))}."


def rule_lines() -> str:
    """All rules, a line each."""
    rows = [("RULE", "DEFAULT", "PATCHED", "WHAT HOLDS")]
    rows += [(rule.id, rule.mode.value, "yes" if rule.fixes else "", rule.summary) for rule in RULES]
    return aligned(rows)


def described(rule: Rule) -> dict[str, Any]:
    """Everything that is known about it, for programs."""
    return {
        "rule": rule.id,
        "mode": rule.mode,
        "patched": rule.fixes,
        "kinds": [{"group": kind.group, "kind": kind.kind} for kind in rule.kinds],
        "comparedWith": sorted(rule.needs),
        "summary": rule.summary,
        "page": rule.page.strip(),
    }


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """A line for each row, in columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        _GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
