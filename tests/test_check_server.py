"""`--server` without a cluster, and where it differs from offline. tests/cluster asks a real one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.api_server import ApiServer
from tests.checking import QUOTAS, checked, cluster_queue, deployment, node, written
from webhook.check.result import Place
from webhook.check.server import Answer, exit_code, report
from webhook.cli import main

WEBHOOK = 'admission webhook "clusterqueues.validate.floorkeeper.io" denied the request: '
DENIED = (*QUOTAS, node(), cluster_queue("c", 1))
OFFLINE = checked(*DENIED)
(FOUND,) = OFFLINE.findings
NOTHING = "0 objects asked about: 0 allowed, 0 warned, 0 denied; 0 differ from offline"


def answer(denial: str = "", *warnings: str) -> Answer:
    return Answer(Place("a.yaml", 3, 1), ("kueue.x-k8s.io", "ClusterQueue", "", "c"), denial, warnings)


@pytest.mark.parametrize(
    ("said", "lines"),
    [
        (
            answer(WEBHOOK + FOUND.message),
            [f"denied: ClusterQueue c: {WEBHOOK}{FOUND.message}"],
        ),
        (
            answer(WEBHOOK + "another amount [floors-exceed-capacity]"),
            [f"denied: ClusterQueue c: {WEBHOOK}another amount [floors-exceed-capacity]"],
        ),
        (
            answer("", FOUND.message[:80] + "…"),
            [f"warned: ClusterQueue c: {FOUND.message[:80]}…", "    offline: denied"],
        ),
        (
            answer(),
            ["allowed: ClusterQueue c", "    offline: denied", f"    offline alone: deny: {FOUND.message}"],
        ),
        (
            answer(WEBHOOK + FOUND.message + "\nx [no-reclaim]", "from Kueue\x1b"),
            [
                rf"denied: ClusterQueue c: {WEBHOOK}{FOUND.message} | x [no-reclaim] | from Kueue\x1b",
                "    in the cluster alone: x [no-reclaim]",
            ],
        ),
    ],
)
def test_differences(said: Answer, lines: list[str]) -> None:
    word = lines[0].partition(":")[0]
    counts = ", ".join(f"{int(word == each)} {each}" for each in ("allowed", "warned", "denied"))
    summary = f"1 object asked about: {counts}; {int(len(lines) > 1)} differ from offline"
    assert list(report([said], [], OFFLINE)) == [f"a.yaml:3: {lines[0]}", *lines[1:], summary]


@pytest.mark.parametrize(
    ("answers", "fail_on", "code"),
    [
        ([], (), 2),
        ([answer()], ("patch", "warn"), 0),
        ([answer("no")], (), 1),
        ([answer("", "w")], (), 0),
        ([answer("", "w")], ("patch",), 0),
        ([answer("", "w")], ("warn",), 1),
        ([answer("", "must be 0, is 1; patched: set to 0 [surge-without-quota]")], ("warn",), 0),
        ([answer("", "must be 0, is 1; patched: set to 0 [surge-without-quota]")], ("patch",), 1),
    ],
)
def test_exit_codes(answers: list[Answer], fail_on: tuple[str, ...], code: int) -> None:
    assert exit_code(answers, [], fail_on, allow_empty=False) == code


def ran(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int | str | None, list[str], str]:
    with pytest.raises(SystemExit) as end:
        main(["check", "--server", *words])
    out, err = capsys.readouterr()
    return end.value.code, out.splitlines(), err


def test_a_cluster_that_is_down(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ApiServer().running() as api:
        monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path)))
    code, (line, summary), err = ran(capsys, written(tmp_path / "in", deployment("x")))
    assert (code, summary, err) == (2, NOTHING, "")
    assert line.startswith("floorkeeper: error: --server: the cluster cannot be asked: ")
    assert "refused" in line


def test_without_a_kubeconfig(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    text = "there is no kubeconfig; set KUBECONFIG, or leave --server out"
    lines = [f"floorkeeper: error: --server: the cluster cannot be asked: {text}", NOTHING]
    assert ran(capsys, written(tmp_path / "in", deployment("x"))) == (2, lines, "")


@pytest.mark.parametrize("words", ["--fix", "-o json", "--fix --dry-run"])
def test_what_does_not_go_with_it(capsys: pytest.CaptureFixture[str], words: str) -> None:
    code, _, err = ran(capsys, ".", *words.split())
    text = "--server prints a line for each object: leave --fix and --output out"
    assert (code, err) == (2, f"floorkeeper: {text}; try: floorkeeper check --help\n")
