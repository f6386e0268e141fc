"""A runtime for TrainJobs."""

from __future__ import annotations

from typing import Any

from tests.cluster.controlplane import Cluster

_RUNTIME: dict[str, Any] = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "ClusterTrainingRuntime",
    "metadata": {"name": "torch-distributed", "labels": {"trainer.kubeflow.org/framework": "torch"}},
    "spec": {
        "mlPolicy": {"numNodes": 1, "torch": {}},
        "template": {
            "spec": {
                "replicatedJobs": [
                    {
                        "name": "node",
                        "template": {
                            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                            "spec": {"template": {"spec": {"containers": [{"name": "node", "image": "trainer"}]}}},
                        },
                    }
                ]
            }
        },
    },
}
"""What the TrainJob is to run in; Kueue refuses those without one."""


def install_runtime(cluster: Cluster) -> None:
    cluster.apply(_RUNTIME)
