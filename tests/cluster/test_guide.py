"""What the README quotes of kubectl is what kubectl prints."""

from __future__ import annotations

import re
import shlex
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.controlplane import Cluster, until
from tests.cluster.server import Floorkeeper

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
NAMESPACE = "llm-d-optimized-baseline"
EARLIER = ("01-model-a.yaml", "04-limit-only.yaml")
WIDTH = 100
ALWAYS_THE_SAME = "192.0.2.10"  # an address for documentation, in place of the server's

QUOTES = re.findall(
    r"<!-- checked: tests/cluster/test_guide\.py -->\n```\w*\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL
)


def commands_of(quote: str) -> list[str]:
    return [line.removeprefix("$ ") for line in quote.replace("\\\n", " ").splitlines() if line.startswith("$ ")]


def output_of(quote: str) -> str:
    """What stands below the last command."""
    return quote.replace("\\\n", " ").rpartition("\n$ ")[2].partition("\n")[2]


def printed(cluster: Cluster, command: str) -> str:
    """What a person sees, both streams, in lines of some width."""
    program, *words = shlex.split(command)
    assert program == "kubectl"
    result = subprocess.run(
        [cluster.kubectl, "--kubeconfig", str(cluster.kubeconfig), *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    return "".join(f"{line}\n" for text in result.stdout.splitlines() for line in wrapped(text))


def wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text()))


@pytest.fixture(scope="module")
def in_use(cluster: Cluster, floorkeeper: Floorkeeper) -> Iterator[None]:
    """The example namespace with workloads that came before Floorkeeper."""
    objects = [value for path in sorted((EXAMPLES / "cluster").glob("*.yaml")) for value in documents(path)]
    objects = [value for value in objects if value["kind"] != "Node"]
    del objects[0]["metadata"]["labels"]
    workloads = [value for name in EARLIER for value in documents(EXAMPLES / "workloads" / name)]
    with floorkeeper.policy_replaced((EXAMPLES / "policy.yaml").read_text()):
        try:
            until("the namespace of earlier tests is gone", lambda: cluster.get("namespace", NAMESPACE) is None)
            cluster.apply(*objects, *workloads)
            until("they run", lambda: _all_ready(cluster))
            yield
        finally:
            # All but the namespace is gone by the end: that takes controllers 5 seconds at the least.
            cluster("delete", "deployments", "--all", "-n", NAMESPACE, "--cascade=foreground")
            cluster("delete", "namespace", NAMESPACE, "--wait=false")
            rest = yaml.safe_dump_all(objects[1:])
            cluster("delete", "-f", "-", "--ignore-not-found", input=rest)


def _all_ready(cluster: Cluster) -> bool:
    found = cluster.items("deployments", "-n", NAMESPACE)
    return bool(found) and all(
        each.get("status", {}).get("readyReplicas") == each["spec"].get("replicas", 1) for each in found
    )


def test_a_namespace_that_is_in_use(cluster: Cluster, in_use: None) -> None:
    quote = QUOTES[0]
    *first, last = commands_of(quote)
    for command in first:
        printed(cluster, command)
    # The API server notices the label of a namespace a moment later.
    until("we are asked", lambda: "Warning:" in printed(cluster, last), 20)
    assert printed(cluster, last) == output_of(quote)


def test_while_the_server_is_away(cluster: Cluster, floorkeeper: Floorkeeper, in_use: None) -> None:
    cluster("label", "namespace", NAMESPACE, "floorkeeper.io/managed=true", "--overwrite")
    quote = QUOTES[1]
    (command,) = commands_of(quote)
    floorkeeper.stop()
    try:
        until("we are called in vain", lambda: "failed calling webhook" in printed(cluster, command), 20)
        shown = printed(cluster, command).replace(floorkeeper.address, ALWAYS_THE_SAME)
    finally:
        floorkeeper.start()
    assert shown == output_of(quote)
