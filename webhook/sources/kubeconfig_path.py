"""Where kubectl would look for its kubeconfig."""

from __future__ import annotations

import os
from pathlib import Path


def default_kubeconfig() -> Path | None:
    """kubectl's: the first file of $KUBECONFIG that exists, or ~/.kube/config."""
    listed = os.environ.get("KUBECONFIG", "")
    paths = [Path(entry) for entry in listed.split(os.pathsep) if entry] or [Path.home() / ".kube" / "config"]
    return next((path for path in paths if path.is_file()), None)
