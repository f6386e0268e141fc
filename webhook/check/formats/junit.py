"""A result for CI systems that read test reports: JUnit XML, in the shape that Jenkins and GitLab take. Pure.

A file is a suite, and what one rule says of one object is a case. Objects without findings are a number only, so the
suite of the run has a case for all of them: a report without any case would be taken for a broken one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from webhook.check.formats.characters import visible
from webhook.check.formats.identity import distinct, relative
from webhook.check.formats.json_report import totals
from webhook.check.formats.words import nothing_checked, object_name, summary
from webhook.check.result import Fault, Found, NotJudged, Place, Result, Skipped
from webhook.engine.verdict import Severity


def render(result: Result, *, fail_on: Collection[str] = (), root: str = "", name: str = "floorkeeper check") -> str:
    """`fail_on` says what fails beside denials. Files below `root`, the repository, are named relative to it."""
    severities = {Severity.DENY, *(severity for severity in Severity if severity.value in fail_on)}
    suites = Element("testsuites", name=name)
    cases: dict[str, list[Element]] = defaultdict(list)
    for group in _groups(result):
        cases[group[0].place.file].append(_findings(group, severities))
    for entry in result.skipped:
        cases[entry.place.file].append(_skipped(entry))
    for fault in result.errors:
        cases[fault.place.file].append(_error(fault))
    for file in sorted(cases):
        shown = relative(file, root) or "command line"
        for case in cases[file]:
            case.set("file", visible(shown))
        _add_suite(suites, shown, cases[file])
    run = [_run(result), *(_not_evaluated(entry, "not-evaluated" in fail_on) for entry in result.not_evaluated)]
    _add_suite(suites, name, run, totals(result), result.notes)
    _count(suites)
    indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(suites, encoding="unicode")}\n'


def _groups(result: Result) -> Iterable[list[Found]]:
    """The findings of one rule about one object of one file."""
    groups: dict[tuple[str, ...], list[Found]] = defaultdict(list)
    for found in distinct(result.findings):
        groups[found.place.file, found.api_version, object_name(found), found.rule].append(found)
    return groups.values()


def _findings(group: list[Found], severities: Collection[Severity]) -> Element:
    first = group[0]
    case = _case(first.rule, object_name(first), first.place)
    failing = [found for found in group if found.severity in severities]
    told = [found for found in group if found.severity not in severities]
    if failing:
        failure = SubElement(case, "failure", message=visible(failing[0].message), type=failing[0].severity.value)
        failure.text = _text(failing)
    if told:
        SubElement(case, "system-out").text = _text(told)
    return case


def _skipped(entry: Skipped) -> Element:
    case = _case("skipped", object_name(entry), entry.place)
    SubElement(case, "skipped", message=visible(entry.reason))
    return case


def _error(fault: Fault) -> Element:
    case = _case("input", f"{_where(fault.place)} is usable", fault.place)
    error = SubElement(case, "error", message=visible(fault.message), type="error")
    error.text = visible(f"{_where(fault.place)}: error: {fault.message}")
    return case


def _not_evaluated(entry: NotJudged, fails: bool) -> Element:
    case = _case("not-evaluated", entry.rule)
    SubElement(case, "failure" if fails else "skipped", message=visible(entry.reason))
    return case


def _run(result: Result) -> Element:
    """The case of the run as a whole: never a pass if nothing was checked."""
    case = _case("run", "objects are checked")
    nothing = nothing_checked(result)
    if nothing:
        SubElement(case, "skipped", message=nothing)
    SubElement(case, "system-out").text = summary(result)
    return case


def _case(class_name: str, name: str, place: Place | None = None) -> Element:
    case = Element("testcase", classname=visible(class_name), name=visible(name), time="0")
    if place is not None and place.line:
        case.set("line", str(place.line))
    return case


def _add_suite(
    suites: Element,
    name: str,
    cases: list[Element],
    numbers: dict[str, int] | None = None,
    notes: tuple[Fault, ...] = (),
) -> None:
    suite = SubElement(suites, "testsuite", name=visible(name))
    if numbers:
        properties = SubElement(suite, "properties")
        for key, number in numbers.items():
            SubElement(properties, "property", name=key, value=str(number))
    suite.extend(cases)
    if notes:
        lines = (visible(f"{_where(note.place)}: note: {note.message}") for note in notes)
        SubElement(suite, "system-out").text = "\n".join(lines)
    _count(suite)


def _count(element: Element) -> None:
    """Sets the totals of a suite, or of all of them, as attributes."""
    counts = {"tests": ".//testcase", "failures": ".//failure", "errors": ".//error", "skipped": ".//skipped"}
    for name, path in counts.items():
        element.set(name, str(len(element.findall(path))))
    element.set("time", "0")


def _where(place: Place) -> str:
    return f"{place.file}:{place.line}:{place.column}" if place.line else place.file or "command line"


def _text(findings: list[Found]) -> str:
    return "\n".join(visible(f"{_where(found.place)}: {found.severity}: {found.message}") for found in findings)
