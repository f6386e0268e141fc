"""A result for people: `file:line:column: severity: message`, the line itself, and at the end a summary. Pure."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from webhook.check.formats.characters import visible
from webhook.check.formats.excerpt import Excerpts
from webhook.check.formats.identity import distinct
from webhook.check.formats.words import counted, not_evaluated, nothing_checked, object_name, summary
from webhook.check.result import Fault, Found, Place, Result
from webhook.engine.patch import Operation
from webhook.engine.verdict import Severity
from webhook.kube.objects import Path, show_path

_BOLD, _FAINT, _RED, _YELLOW, _CYAN = "1", "2", "1;31", "1;33", "1;36"
_COLOURS = {"deny": _RED, "error": _RED, "warn": _YELLOW, "note": _YELLOW, "patch": _CYAN}
_NAMED = 3  # objects skipped for one reason that are named

_Paint = Callable[[str, str], str]


def render(result: Result, texts: Mapping[str, bytes], *, colour: bool = False) -> str:
    """The whole page. `colour` adds ANSI sequences; nothing in the input can."""
    paint = _coloured if colour else _plain
    excerpts = Excerpts(texts)
    parts = (
        _findings(result, excerpts, paint),
        _faults(result.notes, "note", excerpts, paint),
        _skipped(result, paint),
        (paint(visible(not_evaluated(entry)), _FAINT) for entry in result.not_evaluated),
        _faults(result.errors, "error", excerpts, paint),
        _end(result, paint),
    )
    blocks = ("\n".join(lines) for lines in parts)
    return "\n\n".join(block for block in blocks if block) + "\n"


def _plain(text: str, _code: str) -> str:
    return text


def _coloured(text: str, code: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m"


# Findings and faults


def _findings(result: Result, excerpts: Excerpts, paint: _Paint) -> Iterator[str]:
    findings = distinct(result.findings)
    last_patch = {_object(found): found for found in findings if found.severity is Severity.PATCH}
    for place, group in groupby(findings, key=lambda found: found.place):
        here = list(group)
        for found in here:
            yield _headline(place, found.severity, found.message, paint)
        yield from _excerpt(place, here[-1].severity, excerpts, paint)
        for found in here:
            # The patch is the object's: it is shown once, where the object's patches have all been told.
            if last_patch.get(_object(found)) is found:
                yield from (_aside(place, "=", words, paint) for words in change_lines(found.change))


def _object(found: Found) -> tuple[str, str, str, str, str]:
    return found.place.file, found.api_version, found.kind, found.namespace, found.name


def _faults(faults: Iterable[Fault], severity: str, excerpts: Excerpts, paint: _Paint) -> Iterator[str]:
    for fault in faults:
        word = "warn" if fault.warning else severity
        yield _headline(fault.place, word, fault.message, paint)
        yield from _excerpt(fault.place, word, excerpts, paint)


def _headline(place: Place, severity: str, message: str, paint: _Paint) -> str:
    # What is wrong with the command line is in no file.
    where = (visible(place.file) or "floorkeeper") + (f":{place.line}:{place.column}" if place.line else "")
    return f"{paint(f'{where}:', _BOLD)} {paint(f'{severity}:', _COLOURS[severity])} {visible(message)}"


def _excerpt(place: Place, severity: str, excerpts: Excerpts, paint: _Paint) -> Iterator[str]:
    found = excerpts.at(place)
    if found is not None:
        line, before = found
        yield f"{paint(f'{place.line:5} |', _FAINT)} {line}".rstrip()
        yield f"{paint('      |', _FAINT)} {' ' * before}{paint('^', _COLOURS[severity])}"


def _aside(place: Place, mark: str, words: str, paint: _Paint) -> str:
    return f"{paint(f'      {mark}', _FAINT)} {paint(words, _CYAN)}" if place.line else f"  {paint(words, _CYAN)}"


# Changes


def change_lines(change: Iterable[Operation]) -> Iterator[str]:
    """A patch in words, a line for each field that it sets: 'add spec.template.metadata.labels[a/b]: "c"'."""
    for operation in change:
        for path, value in _leaves(_path(operation["path"]), operation["value"]):
            verb = "set" if operation["op"] == "replace" else "add"
            yield visible(f"{verb} {show_path(path)}: {json.dumps(value, ensure_ascii=False)}")


def _path(pointer: str) -> Path:
    """The path of a JSON pointer (RFC 6901). Whether a number is an index or a key, a pointer does not say."""
    steps = (step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])
    return tuple(int(step) if step.isascii() and step.isdigit() else step for step in steps)


def _leaves(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    if not isinstance(value, dict) or not value:
        yield path, value
        return
    for key, inner in value.items():
        yield from _leaves((*path, key), inner)


# What was not judged, and what it comes to


def _skipped(result: Result, paint: _Paint) -> Iterator[str]:
    by_reason: dict[str, list[str]] = defaultdict(list)
    unknown: Counter[str] = Counter()
    for entry in result.skipped:
        if entry.unknown_kind:
            unknown[f"{entry.api_version} {entry.kind}"] += 1
        else:
            by_reason[entry.reason].append(object_name(entry))
    for reason, names in by_reason.items():
        more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        line = f"skipped: {reason} ({counted(len(names), 'object')}): {', '.join(names[:_NAMED])}{more}"
        yield paint(visible(line), _FAINT)
    if unknown:
        kinds = ", ".join(f"{kind} ({number:,})" for kind, number in sorted(unknown.items()))
        yield paint(visible(f"unknown kinds: {kinds}"), _FAINT)


def _end(result: Result, paint: _Paint) -> Iterator[str]:
    yield paint(summary(result), _BOLD)
    nothing = nothing_checked(result)
    if nothing:
        yield paint(nothing, _RED)
