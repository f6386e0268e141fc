"""Which findings are the same, and which file is meant. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from webhook.check.result import Found


def distinct(findings: Iterable[Found]) -> list[Found]:
    """The findings without those that say the same of the same place again."""
    return list({(found.place, found.rule, found.severity, found.message): found for found in findings}.values())


def relative(file: str, root: str) -> str:
    """A file's name as CI systems expect it: relative to `root` if it is below, and without './'; '' stays ''."""
    path = posixpath.normpath(file) if file else ""
    return path.removeprefix(root.rstrip("/") + "/") if root else path
