"""What the walking commands say of a line that is wrong, before they ask any cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_cli import ran

NO_CLUSTER = "no cluster: give --kubeconfig FILE, set KUBECONFIG, or run in a cluster"
EMPTY = "--namespace is empty: give a name"
TIMEOUT = "--timeout {}: give a duration such as 90s, 10m or 1h30m"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("adopt model-a -n x", "model-a: which queue? give --queue QUEUE, or model-a=QUEUE"),
        ("adopt =lq -n x", "=lq: which queue? give --queue QUEUE, or NAME=QUEUE"),
        ("adopt model-a=a model-a=b -n x", "model-a is to be in a and in b: give it one queue"),
        ("adopt model-a=a -n x --timeout soon", TIMEOUT.format("soon")),
        ("release -n x", "name Deployments, or give --all for all of the namespace"),
        ("release model-a --all -n x", "name Deployments, or give --all for all of the namespace"),
        ("release --all -n x --timeout 0", TIMEOUT.format("0")),
        ("adopt model-a=a --namespace=", EMPTY),
        ("audit --namespace=x --namespace=", EMPTY),
        ("release --all --namespace=", EMPTY),
        ("verify --namespace=", EMPTY),
        ("plan --yes", "--yes is of use with --apply alone"),
        ("adopt model-a=a -n x", NO_CLUSTER),
        ("audit", NO_CLUSTER),
        ("plan", NO_CLUSTER),
        ("release --all -n x", NO_CLUSTER),
        ("verify -n x", NO_CLUSTER),
    ],
)
def test_where_to_read_on(
    line: str, message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    words = line.split()
    assert ran(capsys, *words) == (2, "", f"floorkeeper: {message}; try: floorkeeper {words[0]} --help\n")
