"""A cluster that the caller already has: nothing is started in it, and nothing is taken down."""

import os
import subprocess
from pathlib import Path

from .binaries import find_binaries
from .cluster import write_env
from .layout import Layout
from .progress import ClusterError, Progress


def given_kubeconfig(layout: Layout) -> str | None:
    """KUBECONFIG from the environment, unless it is the file that `up` is about to write itself."""
    given = os.environ.get("KUBECONFIG")
    if not given or Path(given).absolute() == layout.kubeconfig:
        return None
    return given


def use_external(given: str, layout: Layout, progress: Progress) -> None:
    """Check that the cluster answers and has Kueue, and write DIR/env for it."""
    progress.say(f"KUBECONFIG is set: using the cluster of {given}, starting nothing")
    kubectl = find_binaries(["kubectl"], progress)["kubectl"]
    _ask(kubectl, given, "/version", "its API server does not answer")
    _ask(kubectl, given, "/apis/kueue.x-k8s.io", "Kueue's CRDs are not installed there")
    layout.bin.mkdir()
    (layout.bin / "kubectl").symlink_to(kubectl)
    write_env(layout, Path(given), {})


def _ask(kubectl: Path, given: str, path: str, otherwise: str) -> None:
    command = [str(kubectl), "--request-timeout=10s", "get", "--raw", path]
    answer = subprocess.run(command, env=os.environ | {"KUBECONFIG": given}, capture_output=True, text=True)
    if answer.returncode != 0:
        raise ClusterError(
            f"KUBECONFIG={given}: {otherwise} ({answer.stderr.strip()}); "
            "mend that, or unset KUBECONFIG to have a cluster started here"
        )
