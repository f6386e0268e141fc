"""The shipped alerts and dashboard as tests read them, and Prometheus' own programs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

Object = dict[str, Any]
ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "manifests" / "overlays" / "monitoring"
RULE_TESTS = Path(__file__).with_name("monitoring_rules")
_METRIC = re.compile(r"\b(?:floorkeeper|kueue|apiserver|process|kube)_\w+\b|\bup\b")
_TEXT = re.compile(r'"[^"]*"')


@cache
def program(name: str) -> Path:
    """`prometheus` or `promtool`: the one on PATH, else that of Debian's package."""
    command = [sys.executable, str(ROOT / "scripts" / "debian"), "prometheus", name]
    return Path(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip())


def manifest(name: str) -> Object:
    value: Object = yaml.safe_load((FOLDER / name).read_text())
    return value


def rule_groups() -> list[Object]:
    groups: list[Object] = manifest("rules.yaml")["spec"]["groups"]
    return groups


def alerts() -> list[Object]:
    return [rule for group in rule_groups() for rule in group["rules"] if "alert" in rule]


def dashboard() -> Object:
    value: Object = json.loads((FOLDER / "dashboard.json").read_text())
    return value


def panels() -> list[Object]:
    """Those that show something: no rows."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


_LABEL_VALUES = re.compile(r"label_values\((?P<series>.+), (?P<label>\w+)\)")


def choices() -> dict[str, tuple[str, str]]:
    """What the dashboard lets choose from: the series and the label whose values these are, by variable."""
    variables = [each for each in dashboard()["templating"]["list"] if each["type"] == "query"]
    found = {each["name"]: _LABEL_VALUES.fullmatch(each["query"]["query"]) for each in variables}
    return {name: (match["series"], match["label"]) for name, match in found.items() if match is not None}


def queries(panel: Object, **variables: str) -> Iterator[str]:
    """The panel's queries as Grafana would send them: `variables` for those of the dashboard and Grafana's own."""
    for target in panel["targets"]:
        expression: str = target["expr"]
        for name, value in variables.items():
            expression = expression.replace(f"${name}", value)
        assert "$" not in expression.replace('"$1"', ""), expression
        yield expression


def metrics_of(expression: str) -> set[str]:
    """The metrics that an expression names; none that a recording rule makes."""
    return set(_METRIC.findall(re.sub(r"\w+:\w+:\w+", "", _TEXT.sub('""', expression))))
