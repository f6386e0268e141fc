"""A YAML text as its tokens and lines: what is written where, between which comments and line breaks."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

import yaml

_LOADER = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
"""What ends a line in YAML 1.1."""


@dataclass(frozen=True, slots=True)
class Splice:
    """`text` takes the place of what is between two indexes; if they are equal, it is put in."""

    start: int
    end: int
    text: str


def spliced(text: str, splices: Iterable[Splice]) -> str:
    """The text after the splices. Those for one place keep their order; one that cuts into another is left out."""
    parts, position = [], 0
    for splice in sorted(dict.fromkeys(splices), key=lambda each: (each.start, each.end)):
        if splice.start >= position:
            parts += [text[position : splice.start], splice.text]
            position = splice.end
    return "".join([*parts, text[position:]])


class Layout:
    """Indexes count the characters of `text`, which must be YAML. Tokens are numbered; only written ones count."""

    def __init__(self, text: str) -> None:
        self.text = text
        found = yaml.scan(text, Loader=_LOADER)
        self.tokens = [token for token in found if token.start_mark.index < token.end_mark.index]
        self._starts = [token.start_mark.index for token in self.tokens]
        breaks = list(_BREAK.finditer(text))
        self._breaks = [match[0] for match in breaks]
        self._ends = [match.start() for match in breaks]
        self._lines = [0, *(match.end() for match in breaks)]

    def first_at(self, index: int) -> int:
        """The first token that begins at `index` or behind it; their number if there is none."""
        return bisect_left(self._starts, index)

    def last_before(self, index: int) -> int:
        """The last token that begins before `index`."""
        return self.first_at(index) - 1

    def start(self, number: int) -> int:
        """Where a token begins; the end of the text if there is none of that number."""
        return self._starts[number] if number < len(self._starts) else len(self.text)

    def end(self, number: int) -> int:
        return int(self.tokens[number].end_mark.index)

    def is_a(self, number: int, kind: type[yaml.Token]) -> bool:
        return number < len(self.tokens) and isinstance(self.tokens[number], kind)

    def past_properties(self, number: int) -> int:
        """The first token from `number` on that is no anchor and no tag."""
        while self.is_a(number, yaml.AnchorToken) or self.is_a(number, yaml.TagToken):
            number += 1
        return number

    def anchor(self, number: int) -> str | None:
        """The name of the anchor that the value beginning with this token has."""
        for token in self.tokens[number : self.past_properties(number)]:
            if isinstance(token, yaml.AnchorToken):
                return str(token.value)
        return None

    def line(self, index: int) -> int:
        """The line of an index, from 0."""
        return bisect_right(self._lines, index) - 1

    def column(self, index: int) -> int:
        return index - self._lines[self.line(index)]

    def line_end(self, index: int) -> int:
        """Where the line break behind `index` is, or the end of the text."""
        line = self.line(index)
        return self._ends[line] if line < len(self._ends) else len(self.text)

    def past_comments(self, index: int, column: int) -> int:
        """The end of the line of `index`, or of the last comment below it that is further in than `column`."""
        line = self.line(index)
        while line + 1 < len(self._lines) and self._comment_column(line + 1) > column:
            line += 1
        return self.line_end(self._lines[line])

    def comments_above(self, index: int) -> int:
        """Where the comments begin that are above the line that begins at `index`; `index` itself without any."""
        line = first = self.line(index)
        if not self.before_on_line(index).strip():
            while line and self._comment_column(line - 1) >= 0:
                line -= 1
        return index if line == first else self._lines[line]

    def _comment_column(self, line: int) -> int:
        """Where the comment begins on a line that holds nothing else, -1 on any other."""
        text = self.text[self._lines[line] : self.line_end(self._lines[line])]
        bare = text.lstrip(" \t")
        return len(text) - len(bare) if bare.startswith("#") else -1

    def before_on_line(self, index: int) -> str:
        return self.text[self._lines[self.line(index)] : index]

    def indent(self, index: int) -> str:
        """The blanks that the line of `index` begins with."""
        line = self.text[self._lines[self.line(index)] : self.line_end(index)]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def line_break(self, index: int) -> str:
        """The break of the line of `index`; the last line's is like that before it."""
        return self._breaks[min(self.line(index), len(self._breaks) - 1)] if self._breaks else "\n"
