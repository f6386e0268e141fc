"""The README's generated parts: `scripts/readme` writes them anew, and a test holds them to what is so."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer
from typing import IO

import yaml
from prometheus_client import CollectorRegistry, generate_latest

from scripts.quickstart.server import Client
from webhook.kube.workloads import WORKLOADS
from webhook.live.audit.metrics import AuditMetrics
from webhook.live.audit.pages import check_pages, check_table
from webhook.live.audit.report import Audit
from webhook.report import fact_table, kind_table, rule_pages, rule_table
from webhook.rules import RULES
from webhook.sources.access import ACCESS

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"

SHOWN = ("01-model-a.yaml", "03-gateway.yaml", "04-limit-only.yaml", "06-resource-quota.yaml", "11-third-queue.yaml")
"""The examples whose outcomes the README shows; of the others it names the verdict."""

_PART = re.compile(r"<!-- generated: (?P<name>[a-z-]+) -->\n(?P<text>.*?)<!-- end: (?P=name) -->", re.DOTALL)
_HEADLINE = re.compile(r"^(\w+) ── \S*/(\S+) ", re.MULTILINE)
_SUMMARY = re.compile(r"^\d+ examples: ", re.MULTILINE)
_METRIC = re.compile(r"^# HELP (floorkeeper_\w+) (.+)\n# TYPE \w+ (\w+)$", re.MULTILINE)

CHANGES = ("gpuRequests: fill", "gpuRequests: full")
"""Lines with which the policy ends, one after the other, while the server serves."""

_PATIENCE = 120.0
"""Seconds after which a run that says nothing more is ended."""


@dataclass(frozen=True, slots=True)
class Run:
    """What one `scripts/run` showed, and what could be read from its server meanwhile."""

    output: str
    """Without the changes."""

    changes: str
    """What it showed when its policy was changed."""

    metrics: str
    exit_code: int


def run_quickstart() -> Run:
    """Runs it on a free port, up to the point where it waits for Ctrl-C, changes its policy, and then presses that."""
    command = [sys.executable, "-m", "scripts.quickstart", "--port=0"]
    with TemporaryDirectory() as folder:
        # A copy, for a policy that is to be changed.
        policy = Path(shutil.copytree(ROOT / "examples", Path(folder, "examples"))) / "policy.yaml"
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, encoding="utf-8"
        ) as process:
            alarm = Timer(_PATIENCE, process.terminate)
            alarm.start()
            assert process.stdout is not None
            try:
                lines = list(_up_to(process.stdout, "/metrics\n"))
                metrics = _read_metrics(lines[-1])
                before = policy.read_text(encoding="utf-8")
                changes: list[str] = []
                for line, end in zip(CHANGES, ("is patched\n", "write one of these\n"), strict=True):
                    policy.write_text(f"{before}{line}\n", encoding="utf-8")
                    changes += _up_to(process.stdout, end)
            finally:
                alarm.cancel()
                process.send_signal(signal.SIGINT)
                rest = list(process.stdout)
    return Run("".join(lines + rest), "".join(changes), metrics, process.returncode)


def _up_to(output: IO[str], end: str) -> Iterator[str]:
    """The lines up to the first with this end. Raises AssertionError if there is none."""
    for line in output:
        yield line
        if line.endswith(end):
            return
    raise AssertionError(f"no line ended with {end!r}")


def _read_metrics(command: str) -> str:
    """What the curl command that was printed would answer."""
    words = command.split()
    client = Client(int(words[-1].rpartition(":")[2].partition("/")[0]), Path(words[words.index("--cacert") + 1]))
    try:
        return client.get("/metrics")[1].decode()
    finally:
        client.close()


def parts(run: Run) -> dict[str, str]:
    """Every generated part by its name, in Markdown."""
    reads = [(row.kind, row.name, ", ".join(sorted(row.verbs))) for row in ACCESS.values()]
    return {
        "quick-start": f"```diff\n$ ./scripts/run\n{shortened(with_fixed_names(run.output)).rstrip()}\n```\n",
        "policy-change": f"```console\n{run.changes.strip()}\n```\n",
        "rule-table": f"{rule_table(RULES)}\n",
        "rule-pages": f"{rule_pages(RULES)}\n",
        "serve-help": _help("serve"),
        "live-help": _help("audit", "plan", "adopt", "verify", "release"),
        "setup-checks": f"{check_table()}\n",
        "check-pages": f"{check_pages()}\n",
        "metrics": f"{metrics_table(run.metrics)}\n",
        "audit-metrics": f"{metrics_table(audit_metrics())}\n",
        "alerts": f"{alert_table()}\n",
        "kinds": f"{kind_table(WORKLOADS)}\n",
        "facts": f"{fact_table(RULES, reads)}\n",
    }


def alert_table() -> str:
    """The shipped alerts, each with its severity, how long it has to be so, and what to do."""
    rules = yaml.safe_load((ROOT / "manifests" / "overlays" / "monitoring" / "rules.yaml").read_text(encoding="utf-8"))
    rows = ["| alert | severity | what it means, and what to do |", "| --- | --- | --- |"]
    for rule in (rule for group in rules["spec"]["groups"] for rule in group["rules"] if "alert" in rule):
        waits = f", {rule['for']}" if "for" in rule else ""
        text = rule["annotations"]["description"].replace("{{ $value | humanize }} writes", "Writes")
        rows.append(f"| `{rule['alert']}` | {rule['labels']['severity']}{waits} | {text.replace('|', chr(92) + '|')} |")
    return "\n".join(rows)


def with_fixed_names(output: str) -> str:
    """The output with the port and the folder that it would have had on a good day."""
    output = re.sub(r"https://127\.0\.0\.1:\d+", "https://127.0.0.1:8443", output)
    return re.sub(r"\S+/floorkeeper-\w+/", "/tmp/floorkeeper-5kq1x0ab/", output)


def shortened(output: str) -> str:
    """The output with the outcomes of most examples cut down to a line that says so."""
    starts = [match.start() for match in _HEADLINE.finditer(output)]
    end = _SUMMARY.search(output, starts[-1])
    assert end is not None
    blocks = [output[start:stop] for start, stop in zip(starts, [*starts[1:], end.start()], strict=True)]
    return output[: starts[0]] + "".join(_shortened(blocks)) + output[end.start() :]


def _shortened(blocks: list[str]) -> Iterator[str]:
    """The blocks, with a line for each run of blocks that are left out for one verdict."""
    for (word, is_shown), group in groupby(blocks, _kind_of):
        run = list(group)
        if is_shown:
            yield from run
        else:
            names = [_HEADLINE.findall(block)[0][1].removesuffix(".yaml") for block in run]
            yield f"[… shortened: {', '.join(names)}: {word}]\n\n"


def _kind_of(block: str) -> tuple[str, bool]:
    word, name = _HEADLINE.findall(block)[0]
    return word, name in SHOWN


def metrics_table(page: str) -> str:
    """The metrics of our own, from a page of them."""
    return "\n".join(
        ["| metric | type | what it is |", "| --- | --- | --- |"]
        + [f"| `{name}` | {kind} | {text} |" for name, text, kind in _METRIC.findall(page)]
    )


def audit_metrics() -> str:
    """The page of metrics of a server that audits, as far as it is about that."""
    metrics, registry = AuditMetrics(every=600), CollectorRegistry()
    metrics.done(Audit(at=0.0, seconds=1.0, namespaces=(), objects=0, checked=0))
    registry.register(metrics)
    return generate_latest(registry).decode()


def _help(*commands: str) -> str:
    """What the commands say of themselves."""
    environment = {**os.environ, "COLUMNS": "100", "TERM": "dumb"}
    said = []
    for command in commands:
        words = [sys.executable, "-m", "webhook", command, "--help"]
        done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, encoding="utf-8", check=True)
        said.append(f"$ floorkeeper {command} --help\n{done.stdout.rstrip()}\n")
    return f"```console\n{chr(10).join(said)}```\n"


def parts_of(text: str) -> dict[str, str]:
    """The parts that a README holds now, by name."""
    return {match["name"]: match["text"] for match in _PART.finditer(text)}


def with_parts(text: str, new: Mapping[str, str]) -> str:
    """The README with these parts in place of those that it holds. Raises KeyError for a name that is not made."""
    return _PART.sub(
        lambda match: f"<!-- generated: {match['name']} -->\n{new[match['name']]}<!-- end: {match['name']} -->", text
    )


def main() -> int:
    """Writes the README anew."""
    before = README.read_text(encoding="utf-8")
    after = with_parts(before, parts(run_quickstart()))
    README.write_text(after, encoding="utf-8")
    print(f"{README.name}: {'as it was' if after == before else 'written anew'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
