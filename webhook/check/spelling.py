"""How a value is written as YAML or JSON text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from webhook.sources.scalars import PLAIN, scalar

_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./%+@-]*|[0-9]+%")
"""What needs no quotes in any context, if it is no word such as `yes`. What begins like a number gets quotes, since
readers differ over numbers; a percentage is none to any of them."""


def scalar_text(value: Any, quote: str | None = "") -> str:
    """A scalar that reads as `value`, in the quotes given if it is a string; without any, in those that it needs."""
    if not isinstance(value, str):
        return json.dumps(value)
    if not quote and _PLAIN.fullmatch(value) and scalar(PLAIN, value) == value:
        return value
    if quote == "'" and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    return json.dumps(value, ensure_ascii=not value.isprintable())


def flow_text(value: Any) -> str:
    """Any value on one line."""
    if isinstance(value, dict):
        return "{" + flow_pairs(value) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow_text, value)) + "]"
    return scalar_text(value)


def flow_pairs(value: Mapping[str, Any]) -> str:
    return ", ".join(f"{scalar_text(key)}: {flow_text(item)}" for key, item in value.items())


def block_lines(value: Mapping[str, Any], step: str) -> list[str]:
    """A mapping as the lines of a block that begins in column 0. Lists are written on one line."""
    lines = []
    for key, item in value.items():
        if isinstance(item, dict) and item:
            lines.append(f"{scalar_text(key)}:")
            lines += [step + line for line in block_lines(item, step)]
        else:
            lines.append(f"{scalar_text(key)}: {flow_text(item)}")
    return lines


@dataclass(frozen=True, slots=True)
class Style:
    """How the text around a value is written, so that the value looks like it."""

    column: int | None = None
    """That of the block mapping whose value it is; None inside braces and brackets, and for an item of a list."""

    step: str = "  "
    """What one level is indented by."""

    json: bool = False
    """Strings are in double quotes."""

    spread: bool = False
    """Keys between braces have lines of their own."""

    tight: bool = False
    """No blank stands behind colons and commas."""

    def text(self, value: Any, indent: str, line_break: str) -> str:
        """Any value, in braces if it is a mapping. Lines behind its first are indented by `indent` and more."""
        if not self.json:
            return flow_text(value)
        if self.spread:
            return json.dumps(value, ensure_ascii=False, indent=self.step).replace("\n", line_break + indent)
        separators = (",", ":") if self.tight else (", ", ": ")
        return json.dumps(value, ensure_ascii=False, separators=separators)

    def pairs(self, value: Mapping[str, Any], indent: str = "", line_break: str = "") -> str:
        """What stands between the braces; with a line break, each key on a line of its own."""
        between = f",{line_break}{indent}" if line_break else "," if self.tight else ", "
        colon = ":" if self.tight else ": "
        write = json.dumps if self.json else scalar_text
        return between.join(f"{write(key)}{colon}{self.text(item, indent, line_break)}" for key, item in value.items())
