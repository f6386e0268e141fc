"""A folder of manifests as the source of facts."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from webhook.kube.facts import PROJECTIONS, LocalQueueFact, NamespaceFact, ResourceQuotaFact
from webhook.sources.manifests import ManifestSource, read_facts
from webhook.sources.source import KindState, SourceError

NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: team, labels: {team: a}}\n"
QUEUE = (
    "apiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue\nmetadata: {name: NAME, namespace: team}\n"
    "spec: {clusterQueue: a-cq}\n"
)


def fill(directory: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return directory


def started(directory: Path) -> ManifestSource:
    source = ManifestSource(directory)
    asyncio.run(source.start())
    return source


def refused(directory: Path) -> str:
    with pytest.raises(SourceError) as raised:
        started(directory)
    return str(raised.value)


def test_every_kind_is_known_once_the_folder_is_read(tmp_path: Path) -> None:
    fill(tmp_path, {"a.yaml": NAMESPACE})
    source = ManifestSource(tmp_path)
    unread = KindState(known=False, age_seconds=0.0, detail=f"{tmp_path} is not read yet")
    assert source.states() == dict.fromkeys(PROJECTIONS, unread)
    asyncio.run(source.start())
    assert source.states() == dict.fromkeys(PROJECTIONS, KindState(known=True, age_seconds=0.0))
    assert source.snapshot.unknown() == {}
    assert source.snapshot.namespace("team") == NamespaceFact("team", {"team": "a"})
    assert source.snapshot.local_queues("team") == []
    assert not asyncio.run(source.confirm(frozenset(PROJECTIONS), "team"))
    asyncio.run(source.stop())


def test_which_files_are_read_and_in_which_order(tmp_path: Path) -> None:
    """Of two objects that are the same the later counts, by the path of the file and the place in it."""
    queue = QUEUE.replace("NAME", "a-lq")
    fill(
        tmp_path,
        {
            "b/deeper/a.yml": queue.replace("a-cq", "first") + "---\n" + queue.replace("a-cq", "second"),
            "c.json": '{"apiVersion": "v1", "kind": "NamespaceList", "items": [{"metadata": {"name": "team"}}]}',
            "a.yaml": QUEUE.replace("NAME", "other"),
            ".hidden.yaml": "a: b: c",
            ".git/x.yaml": "a: b: c",
            "README.md": "a: b: c",
            "x.yaml.orig": "a: b: c",
            "blank.yaml": "# nothing\n---\n",
        },
    )
    snapshot = started(tmp_path).snapshot
    assert snapshot.namespace("team") == NamespaceFact("team", {})
    assert snapshot.local_queues("team") == ["a-lq", "other"]
    assert snapshot.local_queue("team", "a-lq") == LocalQueueFact("team", "a-lq", "second")
    fill(tmp_path, {"d.yaml": queue.replace("a-cq", "third").replace("v1beta2", "v1beta1")})
    assert started(tmp_path).snapshot.local_queue("team", "a-lq") == LocalQueueFact("team", "a-lq", "third")


def test_a_mounted_config_map_is_read_once(tmp_path: Path) -> None:
    """The kubelet puts the files into a hidden folder and links to them through `..data`."""
    fill(tmp_path, {"..2026_01_01/a.yaml": NAMESPACE})
    (tmp_path / "..data").symlink_to("..2026_01_01")
    (tmp_path / "a.yaml").symlink_to("..data/a.yaml")
    assert started(tmp_path).snapshot.namespace("team") == NamespaceFact("team", {"team": "a"})


def test_links_are_followed_and_end(tmp_path: Path) -> None:
    elsewhere = fill(tmp_path / "elsewhere", {"a.yaml": NAMESPACE})
    state = tmp_path / "state"
    state.mkdir()
    (state / "linked").symlink_to(elsewhere)
    (elsewhere / "back").symlink_to(state)
    (elsewhere / "self").symlink_to(elsewhere)
    assert started(state).snapshot.namespace("team") is not None
    (state / "gone.yaml").symlink_to("nowhere")
    os.mkfifo(state / "pipe.yaml")
    assert refused(state) == (
        f"{state}/gone.yaml: is a broken link or no regular file; remove it or mend it\n"
        f"{state}/pipe.yaml: is a broken link or no regular file; remove it or mend it"
    )


def test_kinds_are_told_by_their_group_too(tmp_path: Path) -> None:
    fill(
        tmp_path,
        {
            "a.yaml": NAMESPACE,
            "others.yaml": (
                "apiVersion: example.com/v1\nkind: LocalQueue\nmetadata: {name: x, namespace: team}\n---\n"
                "apiVersion: v1\nkind: Deployment\nmetadata: {name: x, namespace: team}\n---\n"
                "apiVersion: v1\nkind: ConfigMap\n---\n"
                "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: mine, namespace: team}\n"
            ),
        },
    )
    snapshot = started(tmp_path).snapshot
    assert snapshot.local_queues("team") == []
    assert [each.name for each in snapshot.workloads("team", "Deployment")] == ["mine"]


def test_where_no_namespace_is_given(tmp_path: Path) -> None:
    quota = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q, namespace: SPACE}\nspec: {hard: {pods: 1}}\n---\n"
    fill(
        tmp_path,
        {
            "a.yaml": quota.replace("SPACE", "") + quota.replace("SPACE", "team"),
            "b.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: team, namespace: ignored}\n",
        },
    )
    snapshot = started(tmp_path).snapshot
    assert snapshot.resource_quotas("default") == [ResourceQuotaFact("default", "q", ("pods",))]
    assert snapshot.resource_quotas("team") == [ResourceQuotaFact("team", "q", ("pods",))]
    assert snapshot.namespace("team") is not None


def test_a_pod_of_a_deployment_takes_the_place_of_a_bare_one(tmp_path: Path) -> None:
    """The later object counts also where it holds nothing to compare with: the Deployment stands for its pods."""
    pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: x\n  labels: {kueue.x-k8s.io/queue-name: a-lq}\n"
    child = pod.replace("a-lq", "a-lq, pod-template-hash: 5d4f8c7b9") + (
        "  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: y, controller: true}]\n"
    )
    assert len(started(fill(tmp_path, {"a.yaml": pod})).snapshot.workloads("default", "Pod")) == 1
    assert started(fill(tmp_path, {"b.yaml": child})).snapshot.workloads("default", "Pod") == []


KINDS = ", ".join(PROJECTIONS)

PASSED_OVER: dict[str, tuple[dict[str, str], str]] = {
    "empty": (
        {},
        "DIR: no manifest (*.yaml, *.yml, *.json) is in it, so nothing is managed; put those that stand for the "
        "cluster there",
    ),
    "nothing to read": (
        {"README.md": "hello", ".a.yaml": NAMESPACE},
        "DIR: no manifest (*.yaml, *.yml, *.json) is in it, so nothing is managed; put those that stand for the "
        "cluster there",
    ),
    "blank": (
        {"a.yaml": "---\n# nothing\n"},
        f"DIR: no manifest describes a {KINDS}, so nothing is managed; put those that stand for the cluster there",
    ),
    "other kinds": (
        {"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"},
        f"DIR: no manifest describes a {KINDS}, so nothing is managed; put those that stand for the cluster there",
    ),
    "a kustomization": (
        {
            "kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n",
            "a.yaml": NAMESPACE,
        },
        "DIR/kustomization.yaml:1: is a kustomization; render it with `kubectl kustomize`, and put that here",
    ),
    "a kustomization without a kind": (
        {"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": NAMESPACE},
        "DIR/kustomization.yaml:1: apiVersion and kind are missing; render a kustomization first, with "
        "`kubectl kustomize`",
    ),
    "values of a chart": (
        {"values.yaml": "replicas: 1\n", "a.yaml": NAMESPACE},
        "DIR/values.yaml:1: apiVersion and kind are missing; every object needs apiVersion, kind and metadata.name",
    ),
}


@pytest.mark.parametrize(("files", "note"), PASSED_OVER.values(), ids=PASSED_OVER)
def test_what_is_no_manifest_is_passed_over(tmp_path: Path, files: dict[str, str], note: str) -> None:
    directory = fill(tmp_path, files)
    facts, notes = read_facts(directory)
    assert notes == [note.replace("DIR", str(directory))]
    assert [fact.name for fact in facts["Namespace"]] == ["team"] * ("a.yaml" in files and NAMESPACE in files["a.yaml"])
    assert not started(directory).snapshot.unknown()


REFUSED: dict[str, tuple[dict[str, str], str]] = {
    "no name": (
        {"a.yaml": "apiVersion: v1\nkind: Namespace\nmetadata:\n  labels: {}\n"},
        "DIR/a.yaml:3: Namespace without metadata.name; write its name",
    ),
    "generated name": (
        {"a.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {generateName: x-}\n"},
        "DIR/a.yaml:3: Pod without metadata.name; write its name",
    ),
    "no metadata": (
        {"a.yaml": "# x\napiVersion: v1\nkind: Namespace\n"},
        "DIR/a.yaml:2: Namespace without metadata.name; write its name",
    ),
    "a name that is a number": (
        {"a.yaml": "apiVersion: v1\nkind: Pod\nmetadata:\n  name: 1\n  namespace: 1e3\n"},
        "DIR/a.yaml:4: metadata.name must be a string; quote it\n"
        "DIR/a.yaml:5: metadata.namespace must be a string; quote it",
    ),
    "several files": (
        {
            "b.yaml": f"{NAMESPACE}---\na: b: c\n",
            "a/c.yaml": "kind: Pod\n---\n- 1\n",
            "z.json": '{"apiVersion": "v1", "kind": "Namespace"}',
            "fine.yaml": NAMESPACE,
        },
        "DIR/a/c.yaml:1: apiVersion is missing; every object needs apiVersion, kind and metadata.name\n"
        "DIR/a/c.yaml:3: is a list, not an object; a manifest begins with apiVersion and kind\n"
        "DIR/b.yaml:5: is not YAML at column 5: mapping values are not allowed in this context; correct it\n"
        "DIR/z.json:1: Namespace without metadata.name; write its name",
    ),
}


@pytest.mark.parametrize(("files", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused(tmp_path: Path, files: dict[str, str], message: str) -> None:
    assert refused(fill(tmp_path, files)) == message.replace("DIR", str(tmp_path))


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    assert refused(tmp_path / "absent") == f"{tmp_path}/absent: no such folder; check the path"
    path = tmp_path / "a.yaml"
    path.write_text(NAMESPACE)
    assert refused(path) == f"{path}: cannot be read as a folder: Not a directory; check the path"


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=100) | st.text(max_size=60).map(lambda text: (NAMESPACE + text).encode()))
def test_arbitrary_files_are_read_or_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.yaml").write_bytes(data)
    try:
        source = started(tmp_path)
    except SourceError:
        return
    assert source.snapshot.unknown() == {}
