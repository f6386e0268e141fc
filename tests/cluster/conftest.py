"""The real control plane: etcd, kube-apiserver, controllers, scheduler, kwok and Kueue, for the whole session.

KEDA, Volcano, the Prometheus operator and the operators of all kinds of workloads are there by their
CustomResourceDefinitions alone, cert-manager by its controllers too, without its webhook.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cluster.api import Api, proxied
from tests.cluster.controlplane import Cluster, running_cluster
from tests.cluster.definitions import install_definitions
from tests.cluster.reading import Reading
from tests.cluster.runtime import install_runtime
from tests.cluster.server import Floorkeeper, serving
from tests.cluster.team import Team, made_team


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as running, proxied(running) as api:
        install_definitions(running)
        install_runtime(running)
        yield replace(running, reading=Reading(api.client))


@pytest.fixture(scope="session")
def kubectl(cluster: Cluster) -> Cluster:
    """Called like a function: kubectl("get", "pods")."""
    return cluster


@pytest.fixture(scope="session")
def api(cluster: Cluster) -> Api:
    return Api.of(cluster)


@pytest.fixture(scope="session")
def floorkeeper(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Floorkeeper]:
    """The server, with the shipped manifests registered, and with no more rights than they give it."""
    with serving(cluster, tmp_path_factory.mktemp("floorkeeper")) as server:
        yield server


@pytest.fixture
def team(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Team]:
    """A namespace of its own, unmanaged until the test says otherwise, with two floors of 5 GPUs in a cohort of 10."""
    with made_team(cluster, request.node.name) as team:
        yield team
