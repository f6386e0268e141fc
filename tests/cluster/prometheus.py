"""Prometheus as a process, told to scrape what the test says, and asked over its HTTP API."""

from __future__ import annotations

import math
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.cluster.controlplane import until
from tests.monitoring import program

Object = dict[str, Any]
_INTERVAL = "1s"


@dataclass(frozen=True)
class Prometheus:
    url: str
    began: float

    def ask(self, path: str, **parameters: str) -> Any:
        """The `data` of an answer. Fails with what Prometheus says is wrong with the question."""
        answer = httpx.get(f"{self.url}/api/v1/{path}", params=parameters, timeout=10).json()
        assert answer["status"] == "success", f"{parameters}: {answer}"
        return answer["data"]

    def total(self, expression: str) -> float:
        """The sum of what an expression is now."""
        return sum(float(sample["value"][1]) for sample in self.ask("query", query=expression)["result"])

    def values(self, expression: str) -> list[float]:
        """Every number that a graph of the expression would show, since the start."""
        times = {"start": f"{self.began:.0f}", "end": f"{time.time():.0f}", "step": _INTERVAL}
        result = self.ask("query_range", query=expression, **times)["result"]
        found = [float(value) for series in result for _, value in series["values"]]
        return [value for value in found if not math.isnan(value)]

    def label_values(self, series: str, label: str) -> set[str]:
        """As Grafana asks for what a variable can be, where it is label_values(series, label)."""
        since = {"start": f"{self.began:.0f}", "end": f"{time.time():.0f}"}
        return set(self.ask(f"label/{label}/values", **{"match[]": series}, **since))

    def rules(self) -> list[Object]:
        return [rule for group in self.ask("rules")["groups"] for rule in group["rules"]]

    def targets(self) -> dict[str, str]:
        """Why each job's target cannot be scraped, '' if it can."""
        active = self.ask("targets", state="active")["activeTargets"]
        return {
            target["labels"]["job"]: target["lastError"] or ("" if target["health"] == "up" else "?")
            for target in active
        }


@contextmanager
def scraping(directory: Path, jobs: Sequence[Object], groups: Sequence[Object]) -> Iterator[Prometheus]:
    """One that scrapes the jobs and evaluates the groups of rules once a second, and has scraped all of them."""
    (directory / "rules.yaml").write_text(yaml.safe_dump({"groups": list(groups)}))
    configuration = {
        "global": {"scrape_interval": _INTERVAL, "scrape_timeout": _INTERVAL, "evaluation_interval": _INTERVAL},
        "rule_files": ["rules.yaml"],
        "scrape_configs": list(jobs),
    }
    (directory / "prometheus.yaml").write_text(yaml.safe_dump(configuration))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    command = [str(program("prometheus")), f"--config.file={directory / 'prometheus.yaml'}"]
    command += [f"--storage.tsdb.path={directory / 'data'}", f"--web.listen-address={address}", "--log.level=warn"]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    prometheus = Prometheus(f"http://{address}", time.time())

    def scraped() -> bool:
        assert process.poll() is None, (directory / "log").read_text()
        try:
            ready = httpx.get(f"{prometheus.url}/-/ready", timeout=10).status_code == 200
        except httpx.TransportError:
            return False
        return ready and set(prometheus.targets().values()) == {""}

    try:
        until("every target is scraped", scraped, 20)
        yield prometheus
    finally:
        process.terminate()
        process.wait(15)
