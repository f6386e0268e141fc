"""The guide's objects with model-a as an install-time overlay, which kubectl renders."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cluster.controlplane import Cluster
from tests.test_check_guide import AT_INSTALL_TIME, GUIDE, OVERLAID, broken, is_clean, is_the_one_finding, judged


@pytest.fixture
def programs(cluster: Cluster) -> str:
    kubectl = shutil.which(cluster.kubectl)
    assert kubectl
    return str(Path(kubectl).parent)


def test_the_objects_are_clean(programs: str) -> None:
    is_clean(judged(GUIDE, AT_INSTALL_TIME, programs))


@pytest.mark.parametrize("name", OVERLAID)
def test_a_warning_of_the_guide_is_the_one_finding(programs: str, tmp_path: Path, name: str) -> None:
    folder = broken(tmp_path / "guide", OVERLAID[name])
    is_the_one_finding(OVERLAID[name], folder, judged(folder, AT_INSTALL_TIME, programs))
