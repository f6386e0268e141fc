"""What `floorkeeper audit` says of the set-up itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.checking import QUOTAS, TEAM, cluster_queue, deployment, local_queue, namespace
from tests.live.audit_world import (
    SOUND,
    Object,
    active,
    audited,
    but,
    cluster,
    kueue_config,
    lease,
    lines,
    look,
    missed,
    said,
    told,
)
from webhook.live.audit.setup import CHECKS

DELETED = "2026-11-30T11:00:00Z"


# Kueue


def test_without_kueue(tmp_path: Path) -> None:
    quota = [f"{value['kind']} {value['metadata']['name']}" for value in QUOTAS[1:]]
    with cluster(*but(deployment("x"), without=[*quota, "ConfigMap kueue-manager-config"])) as api:
        api.served["kueue.x-k8s.io"] = ()
        found = look(api, tmp_path)
    assert lines(found) == [
        'deny: CustomResourceDefinition "clusterqueues.kueue.x-k8s.io": spec: must be installed, is absent; fix: '
        "install Kueue: without it the queue label does nothing, and no floor holds [setup/kueue-absent]"
    ]
    # That it is not there is said once, and what could not be judged for it is said of each rule.
    assert "clusterqueues.kueue.x-k8s.io: Kueue is not installed" not in missed(found)
    assert "missing-queue-name: LocalQueue: Kueue is not installed" in missed(found)


@pytest.mark.parametrize(
    ("frameworks", "expected"),
    [
        (
            ["batch/job"],
            [
                "deny: {}must hold pod, is batch/job; fix: add it: without it the queue label on a pod template does "
                "nothing [setup/integration-off]",
                "warn: {}must hold deployment, is batch/job; fix: add it, or label pod templates alone: without it the "
                "queue label on a Deployment itself does nothing [setup/integration-off]",
            ],
        ),
        (
            ["deployment"],
            [
                "deny: {}must hold pod, is deployment; fix: add it: without it the queue label on a pod template holds "
                "pods for ever [setup/integration-off]"
            ],
        ),
        (["pod", "deployment", "batch/job"], []),
    ],
)
def test_integrations_that_are_off(tmp_path: Path, frameworks: Sequence[str], expected: Sequence[str]) -> None:
    place = 'ConfigMap "kueue-manager-config": data[controller_manager_config.yaml].integrations.frameworks: '
    config = kueue_config(integrations={"frameworks": list(frameworks)})
    assert told(tmp_path, *but(config)) == [line.format(place) for line in expected]


@pytest.mark.parametrize(
    ("configuration", "setting"),
    [
        (
            {"managedJobsNamespaceSelector": {"matchLabels": {"gpu": "yes"}}},
            "managedJobsNamespaceSelector (gpu=yes)",
        ),
        (
            {
                "integrations": {
                    "frameworks": ["pod", "deployment"],
                    "podOptions": {"namespaceSelector": {"matchLabels": {"gpu": "yes"}}},
                }
            },
            "integrations.podOptions.namespaceSelector (gpu=yes)",
        ),
    ],
)
def test_managed_namespaces_that_kueue_leaves_out(
    tmp_path: Path, configuration: dict[str, object], setting: str
) -> None:
    seen = namespace("seen")
    seen["metadata"]["labels"]["gpu"] = "yes"
    assert told(tmp_path, *but(kueue_config(**configuration), seen, namespace("later"))) == [
        f'deny: Namespace "later" and 1 more: metadata.labels: must be one that Kueue manages, is left out by its '
        f"{setting}; fix: widen that in Kueue's configuration: until then no pod here is ever gated "
        "[setup/namespace-left-out]"
    ]


def test_kueue_whose_configuration_is_not_known(tmp_path: Path) -> None:
    found = audited(tmp_path, *but(without=["ConfigMap kueue-manager-config"]))
    reason = "ConfigMap: kueue-manager-config not found"
    assert missed(found) == [f"setup/{name}: {reason}" for name in ("integration-off", "namespace-left-out")]
    assert found.exit_code() == 3


def test_kueue_that_is_down(tmp_path: Path) -> None:
    controller = deployment("kueue-controller-manager", home="kueue-system", gpus=0)
    found = told(tmp_path, *but(controller))
    assert found == [
        'deny: Deployment "kueue-controller-manager": status.availableReplicas: must be at least 1, is 0; fix: see why '
        "its pods are not ready: until then nothing is admitted [setup/kueue-down]"
    ]
    assert told(tmp_path, *but({**controller, "status": {"availableReplicas": 1}})) == []


LEASE = "Lease c1f6bfd2.kueue.x-k8s.io"
HOMES = "in kueue-system or openshift-kueue-operator"
OLD = "61 s ago by the clock here, by kueue-0: see their log"
NO_LEASE = f"no {LEASE} {HOMES}"
NO_DEPLOYMENT = f"no Deployment kueue-controller-manager {HOMES}"


def controller(available: int, home: str = "kueue-system") -> Object:
    value = deployment("kueue-controller-manager", home=home, gpus=0)
    return {**value, "status": {"availableReplicas": available}}


def test_kueue_whose_lease_nobody_renews(tmp_path: Path) -> None:
    for ago, by in ((4000, "kueue-0"), (4, "")):
        old = lease(ago)
        old["spec"]["holderIdentity"] = by
        found = audited(tmp_path, *but(old))
        assert (lines(found), missed(found)) == (
            [
                'deny: Lease "c1f6bfd2.kueue.x-k8s.io": spec.renewTime: must be renewed every few seconds, is '
                f"{ago:,} s ago by the clock here, by {by or 'nobody'}; fix: see Deployment kueue-controller-manager: "
                "no controller runs, and nothing is admitted [setup/kueue-down]"
            ],
            [],
        )


def test_kueue_of_which_nothing_tells_that_it_runs(tmp_path: Path) -> None:
    """What stands elsewhere by those names is anybody's."""
    elsewhere = (namespace("x", managed=False), controller(1, "x"), lease(home="x"))
    found = audited(tmp_path, *(value for value in but(*elsewhere) if value != lease()))
    assert (said(found), missed(found)) == ([], [f"setup/kueue-down: {NO_LEASE}; {NO_DEPLOYMENT}"])
    assert found.exit_code() == 3


@pytest.mark.parametrize(
    ("there", "forbidden", "reasons"),
    [
        ([lease()], ["deployments"], []),
        ([controller(1)], ["leases"], []),
        ([controller(1)], [], []),
        ([], ["deployments"], [f"{NO_LEASE}; not allowed to list deployments.apps; ask for that right"]),
        ([], ["leases"], [f"not allowed to list leases.coordination.k8s.io; ask for that right; {NO_DEPLOYMENT}"]),
        (
            [controller(1), lease(61)],
            [],
            [f"a Deployment has ready pods, and {LEASE} was renewed {OLD}"],
        ),
    ],
    ids=[
        "by its Lease",
        "by its Deployment",
        "without a Lease",
        "no right, no Lease",
        "no right, no Deployment",
        "old",
    ],
)
def test_kueue_that_is_seen_in_part(
    tmp_path: Path, there: Sequence[Object], forbidden: Sequence[str], reasons: Sequence[str]
) -> None:
    with cluster(*(value for value in SOUND if value["kind"] != "Lease"), *there) as api:
        api.forbidden |= {("list", resource) for resource in forbidden}
        found = look(api, tmp_path)
    kueue = [line for line in missed(found) if line.startswith("setup/kueue-down")]
    assert (said(found), kueue) == ([], [f"setup/kueue-down: {reason}" for reason in reasons])


@pytest.mark.parametrize(
    "selector",
    [
        {"matchLabels": {"gpu": True}},
        {"matchLabels": ["gpu"]},
        {"matchExpressions": [{"key": "gpu", "operator": "Bogus"}]},
        {"matchExpressions": [{"key": "gpu", "operator": "In", "values": []}]},
        {"matchLabel": {"gpu": "yes"}},
        "gpu=yes",
    ],
)
def test_a_selector_of_kueue_that_is_none(tmp_path: Path, selector: object) -> None:
    """Unquoted, yes is no string; what is left of such a selector would be one for all namespaces."""
    config = kueue_config(managedJobsNamespaceSelector=selector)
    found = audited(tmp_path, *but(config))
    reason = "Kueue's managedJobsNamespaceSelector cannot be read as a selector"
    assert (said(found), missed(found)) == ([], [f"setup/namespace-left-out: {reason}"])


def test_a_selector_that_is_none_beside_one_that_leaves_out(tmp_path: Path) -> None:
    config = kueue_config(
        managedJobsNamespaceSelector={"matchLabels": {"gpu": True}},
        integrations={
            "frameworks": ["pod", "deployment"],
            "podOptions": {"namespaceSelector": {"matchLabels": {"gpu": "yes"}}},
        },
    )
    found = audited(tmp_path, *but(config))
    assert said(found) == [f"deny setup/namespace-left-out Namespace {TEAM}"]
    assert len(missed(found)) == 1


def test_a_cluster_in_which_nothing_is_managed(tmp_path: Path) -> None:
    free = namespace(managed=False)
    (first, *_) = told(tmp_path, *but(free, deployment("x")))
    assert first == (
        'deny: Policy "floorkeeper": managedNamespaces: must select a namespace, is floorkeeper.io/managed=true, which '
        "selects none; fix: label the namespaces of the models (by default: kubectl label namespace NAME "
        "floorkeeper.io/managed=true): until then no workload is judged [setup/nothing-managed]"
    )


def test_a_namespace_with_queues_that_nobody_guards(tmp_path: Path) -> None:
    objects = but(namespace("free", managed=False), local_queue("free-lq", "a", "free"))
    assert told(tmp_path, *objects) == [
        'warn: Namespace "free": metadata.labels: must be managed, for it has LocalQueues, is not selected by the '
        "policy's managedNamespaces (floorkeeper.io/managed=true); fix: label it, or delete its LocalQueues: what runs "
        "there draws on the same floors unjudged [setup/namespace-unguarded]"
    ]
    # Who asks about one namespace is told nothing of the others.
    assert told(tmp_path, *objects, namespaces=[TEAM]) == []


# Queues


def test_cluster_queues_that_are_not_active(tmp_path: Path) -> None:
    why = "Can't admit new workloads: references missing ResourceFlavor(s): gone."
    broken = active(cluster_queue("b"), "False", "FlavorNotFound", why)
    assert told(tmp_path, *but(broken)) == [
        f'warn: ClusterQueue "b": status.conditions: must be Active, is FlavorNotFound: {why[:-1]}; fix: mend what '
        "Kueue names: until then this queue admits nothing [setup/cluster-queue-inactive]"
    ]
    assert told(tmp_path, *but(cluster_queue("a"), cluster_queue("b"))) == [
        'warn: ClusterQueue "a" and 1 more: status.conditions: must be Active, is without that condition; fix: see '
        "whether Kueue's controller runs: nothing has looked at this queue [setup/cluster-queue-inactive]"
    ]


def test_local_queues_that_lead_nowhere(tmp_path: Path) -> None:
    assert told(tmp_path, *but(local_queue("c-lq", "c"))) == [
        'warn: LocalQueue "c-lq": spec.clusterQueue: must name a ClusterQueue that exists, is c; fix: create it, or '
        "delete this and create it with another: the field cannot be changed [setup/local-queue-nowhere]"
    ]


def test_what_is_being_deleted_is_left_alone(tmp_path: Path) -> None:
    going = namespace("going")
    going["metadata"]["deletionTimestamp"] = DELETED
    gone = local_queue("gone-lq", "c")
    gone["metadata"]["deletionTimestamp"] = DELETED
    config = kueue_config(
        managedJobsNamespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": TEAM}},
    )
    assert told(tmp_path, *but(config, going, local_queue("c-lq", "c", "going"), gone)) == []


# The table


def test_each_check_has_an_id_of_its_own_and_a_page() -> None:
    assert len({check.id for check in CHECKS}) == len(CHECKS)
    assert all(check.page.partition("\n")[0].endswith(".") for check in CHECKS)


def test_every_check_has_spoken_in_these_tests() -> None:
    text = "".join(path.read_text() for path in Path(__file__).parent.glob("test_audit_*.py"))
    assert [check.id for check in CHECKS if f"[setup/{check.id}]" not in text] == []
