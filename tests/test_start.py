"""What commands bring into their process: the live door only where it is asked for."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tests.live.audit_world import SOUND, cluster

ROOT = Path(__file__).parents[1]
TOLD = """
import atexit, sys
atexit.register(lambda: print(*sys.modules, sep="\\n"))
from webhook.cli import main
main()
"""
"""The command line, which says at its end what was imported."""

LIVE = "webhook.live"
PAGE, AUDITS = "webhook.server.page", "webhook.server.audits"


def imported(*words: str) -> set[str]:
    """By a server that became ready, and was ended."""
    command = [sys.executable, "-c", TOLD, "serve", "--port=0", "--drain-seconds=0", *words]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        told = []
        for line in process.stderr:
            told.append(line)
            if '"message":"ready"' in line.replace('": "', '":"'):
                process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=20)
    assert process.returncode == 0, told
    return set(out.split())


def of_the_live_door(modules: set[str]) -> set[str]:
    return {name for name in modules if name in (PAGE, AUDITS) or name.startswith(LIVE)}


def test_none_of_it_is_there_unless_it_is_asked_for(tmp_path: Path) -> None:
    assert of_the_live_door(imported(f"--state={ROOT / 'examples' / 'cluster'}")) == set()


def test_none_of_it_is_there_beside_a_cluster(tmp_path: Path) -> None:
    with cluster(*SOUND) as api:
        assert of_the_live_door(imported(f"--kubeconfig={api.kubeconfig(tmp_path)}")) == set()


def test_it_is_there_where_it_is_asked_for(tmp_path: Path) -> None:
    modules = imported(f"--state={ROOT / 'examples' / 'cluster'}", "--page-port=0")
    assert {PAGE, f"{LIVE}.page.server"} <= modules
    assert AUDITS not in modules
    with cluster(*SOUND) as api:
        modules = imported(f"--kubeconfig={api.kubeconfig(tmp_path)}", "--audit-every=1h")
    assert {AUDITS, f"{LIVE}.audit.metrics"} <= modules
    assert f"{LIVE}.page.server" not in modules


def test_a_rule_is_explained_without_it() -> None:
    command = [sys.executable, "-c", TOLD, "explain", "short-grace-period"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("short-grace-period\n")
    assert of_the_live_door(set(done.stdout.split())) == set()
