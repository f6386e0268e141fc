"""Text for people: what became of an object, as kubectl shows it, and the README's pages about the rules.

Pure: whoever prints says how wide the screen is, and how a style is painted on it.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from enum import StrEnum

from webhook.engine.rule import Rule
from webhook.kube.kinds import Kind
from webhook.kube.objects import show_path
from webhook.kube.row import Place, Relabel

_CONTEXT = 3  # unchanged lines around a change, as diff -u has them
_INDENT = "  "
_SEAM = re.compile(
    r" (?=admission webhook |fix: |would be patched: |not denied: )"
    r"|(?<!would be) (?=patched: )"
    r"|(?<= denied the request:) "
)
"""Where a message too long for one line is best broken."""


class Word(StrEnum):
    """What became of an object, in one word."""

    PATCHED = "patched"
    ALLOWED = "allowed"
    DENIED = "denied"


class Style(StrEnum):
    """What a piece of text is, for a painter to choose its colour."""

    PATCHED = "patched"
    ALLOWED = "allowed"
    DENIED = "denied"
    WARNING = "warning"
    ADDED = "added"
    REMOVED = "removed"
    HUNK = "hunk"
    NAME = "name"
    ASIDE = "aside"


Paint = Callable[[str, Style], str]
"""Answers the text as the screen needs it for a style, with nothing in it that takes up room."""


def plain(text: str, _style: Style) -> str:
    """The painter of a screen without colours."""
    return text


@dataclass(frozen=True, slots=True)
class Denial:
    """A refusal by a webhook. `message` has one line for each thing that is wrong; `reason` is a meta/v1 Status's."""

    webhook: str
    message: str
    reason: str = "Forbidden"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one object that somebody asked the API server to create.

    `before` and `after` are the object as YAML, with the API server's defaults: as sent, and as stored.
    """

    source: str
    """Its file, as it was named on the command line."""

    kind: str
    name: str
    before: str
    after: str
    warnings: tuple[str, ...] = ()
    denial: Denial | None = None
    about: str = ""
    """A sentence on what the object is for, '' for none."""

    @property
    def word(self) -> Word:
        if self.denial is not None:
            return Word.DENIED
        return Word.ALLOWED if self.before == self.after else Word.PATCHED


def outcome_lines(outcome: Outcome, width: int, paint: Paint = plain) -> Iterator[str]:
    """One outcome, to be read at a glance: a headline with the verdict, what changed, and what kubectl would print."""
    yield _headline(outcome, width, paint)
    yield paint(f"{outcome.kind}/{outcome.name}", Style.NAME)
    for line in textwrap.wrap(outcome.about, width):
        yield paint(line, Style.ASIDE)
    if outcome.word is Word.PATCHED:
        yield ""
        yield from _difference(outcome, paint)
    if outcome.warnings or outcome.denial is not None:
        yield ""
    for text in outcome.warnings:
        yield from _led(f"Warning: {text}", "Warning:", Style.WARNING, width, paint)
    if outcome.denial is not None:
        text = denial_text(outcome.source, outcome.denial)
        yield from _led(text, f"Error from server ({outcome.denial.reason}):", Style.DENIED, width, paint)


def denial_text(source: str, denial: Denial) -> str:
    """A denial as `kubectl apply -f SOURCE` prints it (kubectl 1.36)."""
    return (
        f'Error from server ({denial.reason}): error when creating "{source}": '
        f'admission webhook "{denial.webhook}" denied the request: {denial.message}'
    )


def summary(outcomes: Sequence[Outcome]) -> str:
    """'10 examples: 2 patched, 1 allowed, 7 denied'."""
    count = Counter(outcome.word for outcome in outcomes)
    parts = ", ".join(f"{count[word]} {word}" for word in Word)
    return f"{len(outcomes)} example{'' if len(outcomes) == 1 else 's'}: {parts}"


def wrapped(text: str, width: int) -> Iterator[str]:
    """The text in lines of at most `width` characters, except for longer words. All but the first are indented."""
    parts = [part for line in text.split("\n") for part in (_SEAM.split(line) if len(line) > width else [line])]
    indent = ""
    for part in parts:
        yield from textwrap.wrap(
            part,
            width,
            initial_indent=indent,
            subsequent_indent=_INDENT,
            break_long_words=False,
            break_on_hyphens=False,
        )
        indent = _INDENT


def _headline(outcome: Outcome, width: int, paint: Paint) -> str:
    word = outcome.word.value
    start = f"{word} ── {outcome.source} "
    rest = "─" * max(2, width - len(start))
    return f"{paint(word, Style(word))} {paint('──', Style.ASIDE)} {outcome.source} {paint(rest, Style.ASIDE)}"


def _difference(outcome: Outcome, paint: Paint) -> Iterator[str]:
    """The hunks of a unified diff; its two file names would say nothing."""
    lines = unified_diff(outcome.before.splitlines(), outcome.after.splitlines(), n=_CONTEXT, lineterm="")
    for line in list(lines)[2:]:
        style = {"+": Style.ADDED, "-": Style.REMOVED, "@": Style.HUNK}.get(line[0])
        yield paint(line, style) if style else line


def _led(text: str, lead: str, style: Style, width: int, paint: Paint) -> Iterator[str]:
    """A wrapped text whose first words are painted, if they stayed on one line."""
    for number, line in enumerate(wrapped(text, width)):
        painted = number == 0 and line.startswith(lead)
        yield paint(lead, style) + line.removeprefix(lead) if painted else line


def rule_table(rules: Sequence[Rule]) -> str:
    """The rules as a Markdown table. Each id links to the rule's page."""
    rows = ["| rule | default | patched | what holds |", "| --- | --- | --- | --- |"]
    rows += [
        f"| [{rule.id}](#{rule.id}) | {rule.mode} | {'yes' if rule.fixes else ''} | {rule.summary} |" for rule in rules
    ]
    return "\n".join(rows)


def fact_table(rules: Sequence[Rule], reads: Sequence[tuple[str, str, str]]) -> str:
    """What is read from a cluster and which rules compare with it, in Markdown.

    `reads` are kinds as rules name them in `needs`, each with its name in RBAC and the verbs.
    """
    rows = []
    for kind, name, verbs in reads:
        used = [f"[{rule.id}](#{rule.id})" for rule in rules if kind in rule.needs]
        rows.append(f"| {kind} | `{name}`: {verbs} | {', '.join(used) or 'only with `capacity.discountUnqueued`'} |")
    return "\n".join(["| kind | in RBAC | for |", "| --- | --- | --- |", *rows])


_PLACES = {Place.TEMPLATES: "each pod template with accelerators", Place.NOWHERE: "nowhere: it is told"}
_LATER = {
    Relabel.RESTARTS: "with a rollout",
    Relabel.NEW_PODS: "for new pods",
    Relabel.NEW_JOBS: "any time",
    Relabel.NOTHING: "no",
}


def kind_table(rows: Sequence[Kind]) -> str:
    """The kinds of workloads in Markdown: where each gets its queue label, whether also later, and who admits it."""
    lines = [
        "| kind | API group | the label goes to | later | admitted as a whole |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        place = f"`{show_path((*row.label, 'metadata'))}`" if isinstance(row.label, tuple) else _PLACES[row.label]
        later = "while suspended" if row.suspend else _LATER[row.relabel]
        later = "" if row.label is Place.NOWHERE else later
        lines.append(f"| {row.kind} | {row.group or 'core'} | {place} | {later} | {'yes' if row.gang else ''} |")
    return "\n".join(lines)


def rule_pages(rules: Sequence[Rule]) -> str:
    """The rules' pages in Markdown, each under a heading whose anchor is the rule's id."""
    return "\n\n".join(f"### {rule.id}\n\n{rule.page.strip()}" for rule in rules)
