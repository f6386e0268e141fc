"""The guide's own objects are clean under `floorkeeper check --strict`, and each of its warnings is the one finding.

tests/guide holds them as files. A break is text of one of these files, and what stands there instead. The overlay is
for tests/cluster, which has kubectl.
"""

from __future__ import annotations

import io
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.checking import OPTIONS, lines
from webhook.check.inputs import read_inputs
from webhook.check.judging import check
from webhook.check.result import FAIL_ON, FINE, Result

GUIDE = Path(__file__).parent / "guide"
PLAIN = ("quota.yaml", "nodes.yaml", "model-a.yaml", "model-b.yaml", "autoscaler.yaml")
AT_INSTALL_TIME = ("quota.yaml", "nodes.yaml", "overlay", "model-b.yaml", "autoscaler.yaml")
HOME = "llm-d-optimized-baseline"
MODEL_A, MODEL_B = "optimized-baseline-nvidia-gpu-vllm-decode", "model-b-nvidia-gpu-vllm-decode"

STRATEGY = """\
  strategy:
    rollingUpdate:
      maxSurge: 0
      maxUnavailable: 1
"""
REQUESTS = """\
          requests:
            nvidia.com/gpu: "1"
          limits:
            nvidia.com/gpu: "1"
"""
RESOURCE_QUOTA = f"""\
---
apiVersion: v1
kind: ResourceQuota
metadata:
  name: gpus
  namespace: {HOME}
spec:
  hard:
    requests.nvidia.com/gpu: "10"
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
"""
FLAVOR = """\
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
"""


@dataclass(frozen=True)
class Break:
    file: str
    before: str
    after: str
    said: str
    """The finding whole, as `file:line: severity: message`; another line only where two rules rightly speak."""


BREAKS = {
    "default strategy": Break(
        "model-b.yaml",
        STRATEGY,
        "",
        f'model-b.yaml:7: patch: Deployment "{MODEL_B}": '
        "spec.strategy.rollingUpdate.maxSurge: must be 0, is 25%; patched: set to 0 "
        "[surge-without-quota]",
    ),
    "surge of one": Break(
        "model-a.yaml",
        "maxSurge: 0",
        "maxSurge: 1",
        f'model-a.yaml:15: patch: Deployment "{MODEL_A}": '
        "spec.strategy.rollingUpdate.maxSurge: must be 0, is 1; patched: set to 0 "
        "[surge-without-quota]",
    ),
    "label missing": Break(
        "model-b.yaml",
        "        kueue.x-k8s.io/queue-name: model-b-lq\n",
        "",
        f'model-b.yaml:18: deny: Deployment "{MODEL_B}": '
        "spec.template.metadata.labels[kueue.x-k8s.io/queue-name]: must name a LocalQueue, is "
        f"absent; fix: set it to one of the LocalQueues of namespace {HOME}: "
        "model-a-lq, model-b-lq [missing-queue-name]",
    ),
    "label in the selector": Break(
        "model-b.yaml",
        "      llm-d.ai/model: b\n  strategy",
        "      llm-d.ai/model: b\n      kueue.x-k8s.io/queue-name: model-b-lq\n  strategy",
        f'model-b.yaml:12: deny: Deployment "{MODEL_B}": '
        "spec.selector.matchLabels[kueue.x-k8s.io/queue-name]: must not select by the queue label, "
        "is model-b-lq; fix: take it out; with kustomize, use labels with includeSelectors: false "
        "and includeTemplates: true [queue-name-in-selector]",
    ),
    "GPU request missing": Break(
        "model-b.yaml",
        REQUESTS,
        "          limits: {nvidia.com/gpu: 1}\n",
        f'model-b.yaml:26: deny: Deployment "{MODEL_B}": '
        "spec.template.spec.containers[0].resources.requests[nvidia.com/gpu]: must equal the limit, "
        "1, is absent; fix: set it to 1 [implicit-gpu-request]",
    ),
    "GPU request and limit missing": Break(
        "model-b.yaml",
        "        resources:\n" + REQUESTS,
        "",
        f'model-b.yaml:20: deny: Deployment "{MODEL_B}": '
        "spec.template.metadata.labels[kueue.x-k8s.io/queue-name]: must come with an accelerator "
        "request, is model-b-lq, and no container requests one; fix: request one or take the label "
        "off: Kueue admits such pods for free [implicit-gpu-request]",
    ),
    "ResourceQuota on GPUs": Break(
        "quota.yaml",
        FLAVOR,
        RESOURCE_QUOTA,
        'quota.yaml:16: deny: ResourceQuota "gpus": spec.hard[requests.nvidia.com/gpu]: must not be '
        "limited in a managed namespace, is 10; fix: remove it: a gated pod counts against it, so "
        "Kueue could queue none; the nominalQuota of ClusterQueues replaces it [gpu-resource-quota]",
    ),
    "floors above the nodes": Break(
        "quota.yaml",
        "5  # model B's floor",
        "6",
        'quota.yaml:52: deny: ClusterQueue "llm-d-model-b-cq": '
        "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: must keep the floors within "
        "the hardware, is 6: floors of nvidia.com/gpu in flavor llm-d-gpu-default: ClusterQueue "
        '"llm-d-model-b-cq" 6 + ClusterQueue "llm-d-model-a-cq" 5 = 11; hardware: 10 on 2 nodes; '
        'fix: lower it to 5, or first lower ClusterQueue "llm-d-model-a-cq" to 4, then repeat this '
        "write; for nodes yet to come, declare the flavor's total, 11, in the policy "
        "(capacity.declared) [floors-exceed-capacity]",
    ),
    "floors below the nodes": Break(
        "quota.yaml",
        "5  # model B's floor",
        "4",
        'quota.yaml:52: warn: ClusterQueue "llm-d-model-b-cq": '
        "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: must leave nothing unclaimed, "
        "is such that floors claim 9 of 10 nvidia.com/gpu; fix: raise floors by 1, else idle "
        "[floors-below-capacity]",
    ),
    # The autoscaler's rule speaks too: where nothing is shared, the other model can no longer borrow up to its maximum.
    "no cohort": Break(
        "quota.yaml",
        "  cohortName: llm-d-gpu  # of B\n",
        "",
        'autoscaler.yaml:11: warn: ScaledObject "model-a": spec.maxReplicaCount: must be at most 5, '
        'all that ClusterQueue "llm-d-model-a-cq" can ever hold, is 8, with 1 nvidia.com/gpu a '
        "replica; fix: lower maxReplicaCount to 5, or raise quota [replicas-over-ceiling]\n"
        'quota.yaml:41: warn: ClusterQueue "llm-d-model-b-cq": spec.cohortName: must name a cohort, '
        "is absent; fix: set it to that of the queues which are to share, else idle quota is neither "
        "lent nor borrowed [missing-cohort]",
    ),
    "no reclaim": Break(
        "quota.yaml",
        "  preemption:\n    reclaimWithinCohort: Any  # for B\n",
        "",
        'quota.yaml:41: warn: ClusterQueue "llm-d-model-b-cq": spec.preemption.reclaimWithinCohort: '
        "must be Any, is Never; fix: set it to Any, else a floor that was lent does not come back "
        "when it is needed [no-reclaim]",
    ),
    "borrowing by preemption": Break(
        "quota.yaml",
        "Any  # for B",
        "Any\n    borrowWithinCohort: {policy: LowerPriority}",
        'quota.yaml:46: warn: ClusterQueue "llm-d-model-b-cq": '
        "spec.preemption.borrowWithinCohort.policy: must be Never, is LowerPriority; fix: set it to "
        "Never: above its floor a queue waits for what is idle [no-reclaim]",
    ),
    "two models on one LocalQueue": Break(
        "model-b.yaml",
        "queue-name: model-b-lq",
        "queue-name: model-a-lq",
        f'model-b.yaml:20: warn: Deployment "{MODEL_B}": '
        "spec.template.metadata.labels[kueue.x-k8s.io/queue-name]: must serve one model, is "
        f"model-a-lq, also that of Deployment {MODEL_A}; fix: give "
        "each model a LocalQueue [shared-local-queue]",
    ),
    "maximum above the ceiling": Break(
        "autoscaler.yaml",
        "maxReplicaCount: 8",
        "maxReplicaCount: 11",
        'autoscaler.yaml:11: warn: ScaledObject "model-a": spec.maxReplicaCount: must be at most 10, '
        'all that ClusterQueue "llm-d-model-a-cq" can ever hold, is 11, with 1 nvidia.com/gpu a '
        "replica; fix: lower maxReplicaCount to 10, or raise quota [replicas-over-ceiling]",
    ),
    "no maximum": Break(
        "autoscaler.yaml",
        "  maxReplicaCount: 8\n",
        "",
        'autoscaler.yaml:7: warn: ScaledObject "model-a": spec.maxReplicaCount: must be at most 10, '
        'all that ClusterQueue "llm-d-model-a-cq" can ever hold, is 100, with 1 nvidia.com/gpu a '
        "replica; fix: lower maxReplicaCount to 10, or raise quota [replicas-over-ceiling]",
    ),
    "trigger by Utilization": Break(
        "autoscaler.yaml",
        "metricType: AverageValue",
        "metricType: Utilization",
        'autoscaler.yaml:14: warn: ScaledObject "model-a": spec.triggers[0].metricType: must be '
        "AverageValue for GPU replicas in a queue, is Utilization; fix: use AverageValue: gated pods "
        "skew Utilization [replicas-over-ceiling]",
    ),
    "short grace period": Break(
        "model-b.yaml",
        "GracePeriodSeconds: 120",
        "GracePeriodSeconds: 10",
        f'model-b.yaml:22: warn: Deployment "{MODEL_B}": '
        "spec.template.spec.terminationGracePeriodSeconds: must be at least 60, is 10; fix: allow "
        "for the longest request in flight: a preempted replica is a deleted pod [short-grace-period]",
    ),
    "default grace period": Break(
        "model-b.yaml",
        "      terminationGracePeriodSeconds: 120\n",
        "",
        f'model-b.yaml:21: warn: Deployment "{MODEL_B}": '
        "spec.template.spec.terminationGracePeriodSeconds: must be at least 60, is 30; fix: allow "
        "for the longest request in flight: a preempted replica is a deleted pod [short-grace-period]",
    ),
    "label to a LocalQueue that is not there": Break(
        "model-b.yaml",
        "queue-name: model-b-lq",
        "queue-name: model-c-lq",
        f'model-b.yaml:20: warn: Deployment "{MODEL_B}": '
        "spec.template.metadata.labels[kueue.x-k8s.io/queue-name]: must name a LocalQueue that "
        "exists, is model-c-lq; fix: create it, or use one that exists: model-a-lq, model-b-lq "
        "[unknown-queue]",
    ),
}

OVERLAID: dict[str, Break] = {
    "label folded into an entry that sets selectors": Break(
        "overlay/kustomization.yaml",
        "includeSelectors: false",
        "includeSelectors: true",
        f'overlay (kustomize):12: deny: Deployment "{MODEL_A}": '
        "spec.selector.matchLabels[kueue.x-k8s.io/queue-name]: must not select by the queue label, "
        "is model-a-lq; fix: take it out; with kustomize, use labels with includeSelectors: false "
        "and includeTemplates: true [queue-name-in-selector]",
    ),
    "label on the Deployment alone by kustomize": Break(
        "overlay/kustomization.yaml",
        "includeTemplates: true",
        "includeTemplates: false",
        f'overlay (kustomize):20: patch: Deployment "{MODEL_A}": '
        "spec.template.metadata.labels[kueue.x-k8s.io/queue-name]: must name a LocalQueue, is "
        "absent; patched: set to model-a-lq, from the object's own label [missing-queue-name]",
    ),
}
"""These need kubectl, which tests/cluster has."""


def judged(folder: Path, names: tuple[str, ...], programs: str | None = None) -> Result:
    """`programs` is where kubectl is, for the overlay."""
    paths = [str(folder / name) for name in names]
    return check(read_inputs(paths, io.BytesIO(), programs=programs), OPTIONS)


def broken(folder: Path, case: Break) -> Path:
    """A copy of the guide's objects with one thing otherwise."""
    shutil.copytree(GUIDE, folder)
    file = folder / case.file
    text = file.read_text()
    assert text.count(case.before) == 1, f"{case.before!r} must be in {case.file} once"
    file.write_text(text.replace(case.before, case.after))
    return folder


def told(result: Result, folder: Path) -> list[str]:
    places = [f"{found.place.file.removeprefix(f'{folder}/')}:{found.place.line}" for found in result.findings]
    # What is not evaluated, and notes, have no place in this.
    return [f"{place}: {line}" for place, line in zip(places, lines(result), strict=True)]


def is_clean(result: Result) -> None:
    assert (lines(result), result.errors) == ([], ())
    assert (result.exit_code(FAIL_ON), result.objects, result.checked) == (FINE, 11, 9)


def is_the_one_finding(case: Break, folder: Path, result: Result) -> None:
    assert (told(result, folder), result.errors) == (case.said.splitlines(), ())
    assert result.exit_code(FAIL_ON) == 1


def test_the_objects_are_clean() -> None:
    is_clean(judged(GUIDE, PLAIN))


@pytest.mark.parametrize("name", BREAKS)
def test_a_warning_of_the_guide_is_the_one_finding(tmp_path: Path, name: str) -> None:
    folder = broken(tmp_path / "guide", BREAKS[name])
    is_the_one_finding(BREAKS[name], folder, judged(folder, PLAIN))
