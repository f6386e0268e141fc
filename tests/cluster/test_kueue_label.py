"""The label of the Deployment itself, which Kueue owns: its default, its overwriting, its immutability."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.controlplane import until
from tests.cluster.server import Floorkeeper
from tests.cluster.team import Team
from webhook.kube.names import QUEUE_LABEL

STRATEGY: dict[str, Any] = {"maxSurge": 0, "maxUnavailable": 1}
PLACE = f"spec.template.metadata.labels[{QUEUE_LABEL}]"


def stored(team: Team, name: str = "model-a") -> tuple[str | None, str | None]:
    value = team.get("deployment", name)
    return (
        value["metadata"].get("labels", {}).get(QUEUE_LABEL),
        value["spec"]["template"]["metadata"]["labels"].get(QUEUE_LABEL),
    )


@pytest.mark.parametrize(("own", "template"), [("model-b-lq", ""), ("model-b-lq", "model-b-lq")])
def test_the_objects_own_label_wins(team: Team, floorkeeper: Floorkeeper, own: str, template: str) -> None:
    team.manage()
    team.cluster.apply(team.deployment("model-a", 1, template, own, **STRATEGY))
    assert stored(team) == ("model-b-lq", "model-b-lq")
    until("the model serves", lambda: team.ready("model-a") == 1)


def test_different_labels_are_denied_before_kueue_overwrites_one(team: Team, floorkeeper: Floorkeeper) -> None:
    team.manage()
    result = team.cluster.apply(team.deployment("model-a", 1, "model-b-lq", "model-a-lq", **STRATEGY), check=False)
    assert result.stderr == (
        'Error from server (Forbidden): error when creating "STDIN": admission webhook '
        '"workloads.mutate.floorkeeper.io" denied the request: Deployment "model-a": '
        f"{PLACE}: must equal metadata.labels[{QUEUE_LABEL}], model-a-lq, is model-b-lq; fix: name one LocalQueue in "
        "both places; Kueue would overwrite the template's [conflicting-queue-name]\n"
    )


def test_unmanaged_kueue_overwrites_it(team: Team, floorkeeper: Floorkeeper) -> None:
    """The fault that the rule is there for."""
    team.cluster.apply(team.deployment("model-a", 1, "model-b-lq", "model-a-lq", **STRATEGY))
    assert stored(team) == ("model-a-lq", "model-a-lq")


def test_local_queue_default_that_exists_before(team: Team, floorkeeper: Floorkeeper) -> None:
    team.manage()
    team.cluster.apply(team.local_queue("default"))
    team.cluster.apply(team.deployment("other", **STRATEGY))
    assert stored(team, "other") == ("default", "default")
    result = team.cluster.apply(team.deployment("model-b", 1, "model-b-lq", **STRATEGY), check=False)
    assert result.stderr == (
        'Error from server (Forbidden): error when creating "STDIN": admission webhook '
        '"workloads.mutate.floorkeeper.io" denied the request: Deployment "model-b": '
        f"metadata.labels[{QUEUE_LABEL}]: must be model-b-lq, like the pod template's, is absent; fix: set it, or "
        "delete LocalQueue default: Kueue writes that one over both [conflicting-queue-name]\n"
    )
    team.cluster.apply(team.deployment("model-b", 1, "model-b-lq", "model-b-lq", **STRATEGY))
    assert stored(team, "model-b") == ("model-b-lq", "model-b-lq")


def test_local_queue_default_beside_running_models(team: Team, floorkeeper: Floorkeeper) -> None:
    team.manage()
    team.cluster.apply(team.gateway(), team.deployment("model-a"))
    until("they run", lambda: team.ready("model-a") == 1 and team.ready("gateway") == 1)
    result = team.cluster.apply(team.local_queue("default"), check=False)
    assert result.stderr == (
        'Error from server (Forbidden): error when creating "STDIN": admission webhook '
        '"localqueues.validate.floorkeeper.io" denied the request: LocalQueue "default": metadata.name: must not be '
        "default beside running workloads without an object label, is default; fix: choose another name; Kueue would "
        "refuse every later write to Deployment gateway, Deployment model-a [default-local-queue]\n"
    )
    team.kubectl("annotate", "deployment", "gateway", "note=x")


def test_kueues_own_refusal_is_left_as_it_is(team: Team, floorkeeper: Floorkeeper) -> None:
    team.manage()
    team.cluster.apply(team.deployment("model-a", 1, "model-a-lq", "model-a-lq", **STRATEGY))
    until("the model serves", lambda: team.rolled_out("model-a"))
    result = team.kubectl("label", "deployment", "model-a", f"{QUEUE_LABEL}-", check=False)
    assert 'admission webhook "vdeployment.kb.io" denied the request' in result.stderr
    assert "floorkeeper" not in result.stderr
    result = team.kubectl("annotate", "deployment", "model-a", "note=x")
    assert result.stderr == ""


def test_stateful_set_beside_a_local_queue_default(team: Team, floorkeeper: Floorkeeper) -> None:
    team.manage()
    team.cluster.apply(team.local_queue("default"))
    stateful = team.deployment("other")
    stateful["kind"] = "StatefulSet"
    stateful["spec"]["serviceName"] = "other"
    result = team.cluster.apply(stateful)
    assert result.stderr == ""
    until("the StatefulSet serves", lambda: team.ready("other") == 1)
    until("and is counted", lambda: len(team.workloads()) == 1)
