"""The picture of the floors, in lines of some width. Every bar says by its characters what its colours say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from textwrap import wrap

from rich.style import Style
from rich.text import Text

from webhook.live.plan.numbers import Range, Row, Section

_COLUMNS = (("floor", 6), ("used", 5), ("borrowed", 9), ("lent", 5), ("gated", 6))
_NUMBERS = sum(width for _, width in _COLUMNS)
_INDENT = "  "
_SHORTEST = 12  # cells of a bar
_LONGEST_NAME = 28
_ENLARGED = 5
"""Bars of queues have a scale of their own where the longest is shorter than this part of the hardware's."""


@dataclass(frozen=True, slots=True)
class _Ink:
    mark: str
    plain: str
    """Where the terminal has ASCII alone."""

    style: str
    meaning: str


_USED = _Ink("█", "#", "green", "used of the floor")
_BORROWED = _Ink("▚", "+", "yellow", "borrowed")
_LENT = _Ink("▒", "=", "cyan", "lent")
_IDLE = _Ink("·", ".", "", "free")
_GATED = _Ink("?", "?", "magenta", "asked by gated Workloads")
_THERE = _Ink("━", "-", "", "")
_AWAY = _Ink("x", "x", "red", "away")
_OVER = _Ink("!", "!", "bold red", "beyond the hardware")
_LEGEND = (_USED, _LENT, _IDLE, _BORROWED, _GATED)

_Pieces = Sequence[tuple[_Ink, int]]


def draw(sections: Sequence[Section], width: int, *, ascii_only: bool = False) -> Iterator[Text]:
    """One line each, none wider than `width` unless a name is."""
    if not sections:
        text = (
            "There are no floors: no ClusterQueue has quota of an accelerator, and no ResourceFlavor selects nodes "
            "that offer one."
        )
        yield from (Text(line) for line in wrap(text, width))
        return
    # A name that leaves no room for a bar gets a line of its own.
    longest = min(_LONGEST_NAME, max(8, width - _NUMBERS - _SHORTEST - len(_INDENT) - 1))
    names = ["hardware", *(_name(row) for section in sections for row in section.rows)]
    name_width = max(len(name) for name in names if len(name) <= longest)
    pen = _Pen(name_width, max(_SHORTEST, width - len(_INDENT) - name_width - 1 - _NUMBERS), width, ascii_only)
    for section in sections:
        yield from pen.section(section)
        yield Text()
    if any(section.rows for section in sections):
        yield from pen.legend(sections)


@dataclass(frozen=True, slots=True)
class _Pen:
    name_width: int
    bar_width: int
    width: int
    ascii_only: bool

    def section(self, section: Section) -> Iterator[Text]:
        flavors = section.flavors
        title = f"flavor {flavors[0]}" if len(flavors) == 1 else f"flavors {', '.join(flavors)}, which share nodes"
        yield from self._wrapped(f"{section.resource} in {title}", Style(bold=True), "")
        most = max([section.hardware, section.floors, section.planned, *map(_length, section.rows)])
        times = _times(section)
        if len(section.not_evaluated) < len(flavors):
            usable, hardware = section.usable, section.hardware
            away = [(_THERE, usable), (_AWAY, max(0, hardware - usable))]
            yield self._line("hardware", self._bar([(_THERE, hardware)], most), [str(hardware)])
            yield self._line("usable", self._bar(away, most), [str(usable)])
            sums = [(_THERE, min(section.floors, hardware)), (_OVER, max(0, section.floors - hardware))]
            yield self._line("floors", self._bar(sums, most), [_changed(section.floors, section.planned)])
        unmet = section.unmet_hardware or len(section.not_evaluated) == len(flavors)
        style = "bold red" if unmet else "yellow" if section.unmet_usable else ""
        verdict = section.verdict[:1].upper() + section.verdict[1:]
        if any(row.planned != row.floor for row in section.rows):
            verdict = f"Now: {section.verdict}"
        yield from self._wrapped(verdict, Style.parse(style), _INDENT)
        for flavor, reason in sorted(section.not_evaluated.items()):
            if len(section.not_evaluated) < len(flavors):
                yield from self._wrapped(f"Not evaluated: floors in {flavor}: {reason}", Style.parse("red"), _INDENT)
        first = True
        for (flavor, cohorts), rows in groupby(section.rows, key=lambda row: (row.flavor, _cohorts(row))):
            where = [f"flavor {flavor}"] if len(flavors) > 1 else []
            where.append(f"cohort {' / '.join(cohorts)}" if cohorts else "in no cohort")
            yield from self._heading(", ".join(where), columns=first)
            first = False
            for row in rows:
                yield from self._row(row, most / times)

    def _heading(self, where: str, *, columns: bool) -> Iterator[Text]:
        """Whose rows come next and, once for a section, what the numbers are."""
        *above, last = self._wrapped(where, Style(bold=True), _INDENT)
        yield from above
        if columns:
            left = len(_INDENT) + self.name_width + 1 + self.bar_width
            if len(last.plain) > left:
                yield last
                last = Text()
            last.append(" " * (left - len(last.plain)))
            last.append("".join(f"{name:>{width}}" for name, width in _COLUMNS), style="dim")
        yield last

    def _row(self, row: Row, most: float) -> Iterator[Text]:
        numbers = [
            _changed(row.floor, row.planned),
            _number(row.used, row.kind),
            _number(row.borrowed, row.kind),
            _range(row.lent),
            _number(row.gated, row.kind),
        ]
        name = _name(row)
        if len(name) > self.name_width:
            yield Text(_INDENT + name)
            name = ""
        yield self._line(name, self._bar(_pieces(row), most), numbers)
        if row.note:
            yield from self._wrapped(row.note, Style(dim=True), _INDENT * 2)

    def legend(self, sections: Sequence[Section]) -> Iterator[Text]:
        rows = [row for section in sections for row in section.rows]
        text = "   ".join(f"{self._mark(ink)} {ink.meaning}" for ink in _LEGEND)
        if any(section.usable < section.hardware for section in sections):
            text += f"   {self._mark(_AWAY)} {_AWAY.meaning}"
        if any(section.floors > section.hardware for section in sections):
            text += f"   {self._mark(_OVER)} {_OVER.meaning}"
        yield from self._wrapped(text, Style(dim=True), "")
        notes = []
        if any(row.gated for row in rows):
            notes.append("gated: Workloads that wait for quota")
        if any(row.lent and row.lent.least != row.lent.most for row in rows):
            notes.append("lent a-b: Kueue lends from the cohort as a whole, and does not say whose floor it was")
        if any(_times(section) > 1 for section in sections):
            notes.append("bars of queues have a scale of their own, where they would be too short to see")
        if any(row.kind == "Cohort" for row in rows):
            notes.append("(name): quota of a Cohort itself")
        if notes:
            yield from self._wrapped("; ".join(notes), Style(dim=True), "")

    def _wrapped(self, text: str, style: Style, indent: str) -> Iterator[Text]:
        folded = wrap(
            text,
            self.width,
            initial_indent=indent,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in folded:
            yield Text(line, style=style)

    def _mark(self, ink: _Ink) -> str:
        return ink.plain if self.ascii_only else ink.mark

    def _line(self, name: str, bar: Text, numbers: Sequence[str]) -> Text:
        text = Text(_INDENT + name.ljust(self.name_width) + " ")
        text.append_text(bar)
        text.append(" " * (self.bar_width - len(bar.plain)))
        for (_, width), number in zip(_COLUMNS, numbers, strict=False):
            text.append(number.rjust(width) if len(number) < width else f" {number}")
        text.rstrip()
        return text

    def _bar(self, pieces: _Pieces, most: float) -> Text:
        """Every amount above 0 is seen, so the cells of small ones come off the largest."""
        shown = [(ink, amount) for ink, amount in pieces if amount > 0]
        cells, at = [], 0
        for _, amount in shown:
            end = at + amount
            cells.append(max(1, round(end * self.bar_width / most) - round(at * self.bar_width / most)))
            at = end
        while sum(cells) > self.bar_width and max(cells) > 1:
            cells[cells.index(max(cells))] -= 1
        bar = Text()
        for (ink, _), count in zip(shown, cells, strict=True):
            bar.append(self._mark(ink) * count, style=ink.style)
        return bar


def _pieces(row: Row) -> _Pieces:
    used = row.used or 0
    borrowed = row.borrowed or 0
    own = min(used, row.floor) if row.kind == "ClusterQueue" else 0
    # What is lent for sure: a most that is more may be somebody else's.
    lent = min(row.lent.least, row.floor - own) if row.lent else 0
    return [
        (_USED, own),
        (_LENT, lent),
        (_IDLE, row.floor - own - lent),
        (_BORROWED, borrowed),
        (_GATED, row.asked or 0),
    ]


def _name(row: Row) -> str:
    return f"({row.name})" if row.kind == "Cohort" else row.name


def _cohorts(row: Row) -> tuple[str, ...]:
    """Where a row stands: the quota of a Cohort is with its members."""
    return (*row.cohorts, row.name) if row.kind == "Cohort" else row.cohorts


def _times(section: Section) -> int:
    """How many times as long as the hardware's the bars of queues are."""
    longest = max(map(_length, section.rows), default=0)
    times = section.hardware // longest if longest else 1
    return times if times >= _ENLARGED else 1


def _length(row: Row) -> int:
    return sum(amount for _, amount in _pieces(row))


def _number(amount: int | None, kind: str) -> str:
    if amount is None:
        return "-" if kind == "Cohort" else "?"
    return str(amount)


def _changed(before: int, after: int) -> str:
    return str(before) if before == after else f"{before}>{after}"


def _range(lent: Range | None) -> str:
    if lent is None:
        return "?"
    return str(lent.least) if lent.least == lent.most else f"{lent.least}-{lent.most}"
