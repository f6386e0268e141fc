"""The rules as `floorkeeper explain` and `floorkeeper rules` show them. Pure."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, Literal

from webhook.engine.rule import Rule
from webhook.kube.kinds import Kind
from webhook.report import rule_pages, rule_table
from webhook.rules import RULES

_WIDEST = 100  # columns: longer lines are hard to read
_GAP = "  "


class UnknownRule(Exception):
    """No rule has this id. The message says which comes near, or how to list them."""


def page(rule_id: str, width: int) -> str:
    """A rule's page in at most `width` columns, and the facts about it that are no prose. Raises UnknownRule.

    The id may be in brackets, as messages have it.
    """
    rule_id = rule_id.strip("[]")
    ids = [rule.id for rule in RULES]
    rule = next((rule for rule in RULES if rule.id == rule_id), None)
    if rule is None:
        near = [each for each in ids if rule_id and rule_id in each] or get_close_matches(rule_id, ids, 1)
        hint = f"did you mean {near[0]}?" if near else "floorkeeper rules lists them"
        raise UnknownRule(f"no rule is named {rule_id!r}; {hint}")
    width = min(width, _WIDEST)
    paragraphs = [rule.id, *rule.page.strip().split("\n\n"), *_facts(rule)]
    return "\n\n".join(
        textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False) for text in paragraphs
    )


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


def rule_list(output: Literal["table", "markdown", "json"]) -> str:
    """All rules: a line each, as they are in the README, or with everything that is known about them."""
    if output == "markdown":
        return f"{rule_table(RULES)}\n\n{rule_pages(RULES)}"
    if output == "json":
        return json.dumps([_described(rule) for rule in RULES], indent=2, ensure_ascii=False)
    rows = [("RULE", "DEFAULT", "PATCHED", "WHAT HOLDS")]
    rows += [(rule.id, rule.mode.value, "yes" if rule.fixes else "", rule.summary) for rule in RULES]
    return "\n".join(_aligned(rows))


def _described(rule: Rule) -> dict[str, Any]:
    return {
        "rule": rule.id,
        "mode": rule.mode,
        "patched": rule.fixes,
        "kinds": [{"group": kind.group, "kind": kind.kind} for kind in rule.kinds],
        "comparedWith": sorted(rule.needs),
        "summary": rule.summary,
        "page": rule.page.strip(),
    }


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield _GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
