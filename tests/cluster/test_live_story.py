"""One namespace from its first audit to its end, told by the commands that a person types, on a real control plane.

What the README shows of it is held to what they print; `python -m tests.cluster.test_live_story` writes that anew.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from tests.cluster.api import proxied
from tests.cluster.between import between
from tests.cluster.controlplane import own_cluster, stays, until
from tests.cluster.mistakes import (
    FOUND,
    IN_THE_SET_UP,
    NAMESPACE,
    QUEUE_A,
    QUEUE_B,
    RUN,
    mends,
    mistaken,
)
from tests.cluster.person import Person, quoted
from tests.cluster.polling import Poll, polled
from tests.cluster.reading import Reading
from tests.cluster.server import ROOT, serving
from tests.cluster.team import Team

README = ROOT / "README.md"
_SHOWN = re.compile(r"(<!-- shown: (?P<name>[a-z-]+) -->\n)(?P<text>.*?)(?=<!-- shown end -->)", re.DOTALL)
_GENERATED = re.compile(r"-[0-9a-f]{6,10}-[0-9a-z]{5}$")

ADOPT = f"floorkeeper adopt model-a=model-a-lq model-b=model-b-lq -n {NAMESPACE}"
VERIFY = f"floorkeeper verify -n {NAMESPACE}"
RELEASE = f"floorkeeper release --all -n {NAMESPACE}"
SEVEN_THREE = f"floorkeeper plan --set {QUEUE_A}=7 --set {QUEUE_B}=3"


def test_the_story() -> None:
    with TemporaryDirectory() as directory:
        shown = told(Path(directory))
    quotes = {match["name"]: match["text"] for match in _SHOWN.finditer(README.read_text())}
    assert quotes.keys() == shown.keys()
    for name, quote in quotes.items():
        assert quote.splitlines() == shown[name].splitlines(), "run python -m tests.cluster.test_live_story"


def told(directory: Path) -> dict[str, str]:
    """The whole story, and the parts of it that the README shows."""
    with ExitStack() as stack:
        bare = stack.enter_context(own_cluster(directory))
        cluster = replace(bare, reading=Reading(stack.enter_context(proxied(bare)).client))
        person = Person(cluster, stack.enter_context(between(cluster, directory)))
        story = Story(Team(cluster, NAMESPACE), person)
        story.begins()
        story.is_audited(FOUND, shown=True)
        with serving(cluster, directory, ROOT / "manifests" / "base" / "policy.yaml"):
            story.is_audited(FOUND[len(IN_THE_SET_UP) :])
            story.is_mended()
            story.is_adopted()
            story.is_audited(())
            story.is_rebalanced()
            story.ends(story.is_released())
        story.shown["rights"] = person.asked.table(NAMESPACE)
    return story.shown


@dataclass
class Story:
    team: Team
    person: Person
    shown: dict[str, str] = field(default_factory=dict)

    def show(self, name: str, line: str, code: int = 0) -> str:
        """Has the person type it, and shows that and what it prints, which is returned."""
        output = self.person.types(line, code)
        self.shown[name] = f"```console\n{quoted(line, output)}```\n"
        return output

    def begins(self) -> None:
        team = self.team
        for value in mistaken(team):
            answer = team.api.create(value)
            assert answer.stored, answer
        for name, replicas in RUN.items():
            until(f"{name} runs", partial(self.has, name, replicas), 60)
        until("a typing error waits, and Kueue says why", lambda: "doesn't exist" in json.dumps(team.workloads()), 60)

    def has(self, name: str, replicas: int) -> bool:
        return self.team.ready(name) == replicas

    def is_audited(self, expected: tuple[str, ...], *, shown: bool = False) -> None:
        """Every mistake is found, and nothing else."""
        code = 1 if any(line.startswith("deny") for line in expected) else 0
        found = self.person.types("floorkeeper audit -o json", code)
        report = json.loads(found.partition("\n")[2])
        said = [
            f"{each['severity']} {each['rule']} {each['objects'][0]['kind']} "
            + ",".join(sorted({_GENERATED.sub("", about["name"]) for about in each["objects"]}))
            for each in report["findings"]
        ]
        assert (said, report["notEvaluated"]) == (list(expected), [])
        if shown:
            self.show("audit", "floorkeeper audit", code)

    def is_mended(self) -> None:
        """What adopting refuses, in the words by which it does; and floors that promise more than there is."""
        person, team = self.person, self.team
        refused = person.types(ADOPT, 1)
        problems = [line.strip() for line in refused.splitlines() if line.startswith("  problem: ")]
        rules = [re.findall(r"\[([a-z-]+)\]$", line) for line in problems]
        assert rules == [["implicit-gpu-request"], ["gpu-resource-quota"]], refused
        assert refused.endswith("floorkeeper: see the problems above; nothing was written\n")
        for words, value in mends(team):
            team.cluster(*shlex.split(words), input=None if value is None else yaml.safe_dump(value))
        too_many = person.types("floorkeeper plan", 1)
        assert "11" in too_many
        lowered = person.types(f"floorkeeper plan --set {QUEUE_A}=5 --apply --yes")
        assert lowered.endswith("All is done: 1 step.\n")
        for name, replicas in {**RUN, "embedder": 1}.items():
            until(f"{name} is whole again", partial(self.is_whole, name, replicas), 60)
        until("Kueue has counted them", lambda: self.is_counted(2, 1), 20)

    def is_whole(self, name: str, replicas: int) -> bool:
        return self.has(name, replicas) and self.team.rolled_out(name)

    def is_adopted(self) -> None:
        with self.one_away_at_most("model-a", "model-b"):
            self.show("adopt", f"{ADOPT} --yes")
        assert (self.team.ready("model-a"), self.team.ready("model-b")) == (3, 2)
        until("Kueue has counted them", lambda: self.is_counted(5, 3), 20)
        self.show("verify", VERIFY)

    @contextmanager
    def one_away_at_most(self, *names: str) -> Iterator[None]:
        """While a client polls the replicas, never fewer than all but one of them are ready."""
        before = {name: self.team.ready(name) for name in names}
        with polled(self.team, *names) as poll:
            yield
        assert_polled(poll, {name: replicas - 1 for name, replicas in before.items()})

    def is_rebalanced(self) -> None:
        """From 5/5 to 7/3, while one model wants more than there is."""
        team, person = self.team, self.person
        team.kubectl("scale", "deployment/model-a", "--replicas=8")
        until("one model has all that is idle", lambda: self.has("model-a", 5) and len(team.gated("model-a")) == 3)
        until("Kueue has counted it", lambda: self.is_counted(7, 3, pending=3), 20)
        before = {pod["metadata"]["uid"] for name in (*RUN, "embedder") for pod in team.pods(name)}
        self.show("plan", SEVEN_THREE)
        with polled(team, "model-a", "model-b", "embedder") as poll:
            done = person.types(f"{SEVEN_THREE} --apply --yes")
            stays("nobody is preempted", lambda: self.has("model-a", 5), 2)
        assert done.endswith("All is done: 2 steps.\n")
        assert_polled(poll, {"model-a": 5, "model-b": 2, "embedder": 1})
        assert {pod["metadata"]["uid"] for name in (*RUN, "embedder") for pod in team.pods(name)} == before
        person.types(VERIFY)
        self.is_audited(("warn setup/gated-pods Pod model-a",))

    def is_counted(self, model_a: int, model_b: int, pending: int = 0) -> bool:
        """Whether Kueue says that so many Workloads have quota, and that so many of model A's queue wait."""
        of_a, of_b = (self.team.cluster.get("clusterqueue", name)["status"] for name in (QUEUE_A, QUEUE_B))
        found = of_a["reservingWorkloads"], of_b["reservingWorkloads"], of_a["pendingWorkloads"]
        return bool(found == (model_a, model_b, pending))

    def is_released(self) -> list[str]:
        """The commands that it says are to follow."""
        person, team = self.person, self.team
        refused = person.types(RELEASE, 1)
        remedy = f"kubectl annotate namespace {NAMESPACE} floorkeeper.io/mode=warn --overwrite"
        assert remedy in refused
        assert "3 of its replicas wait, gated" in refused
        assert "scale it down to what is ready first" in refused
        person.types(remedy)
        person.types(f"kubectl scale deployment/model-a --replicas=5 -n {NAMESPACE}")
        until("nothing waits any more", lambda: team.gated("model-a") == [])
        until("the hold is known", lambda: person.tries(f"{RELEASE} --dry-run").returncode == 0, 20)
        with self.one_away_at_most("model-a", "model-b"):
            released = self.show("release", f"{RELEASE} --yes")
        assert team.workloads() == []
        assert (team.ready("model-a"), team.ready("model-b")) == (5, 2)
        return [line.strip() for line in released.splitlines() if line.startswith("  kubectl delete ")]

    def ends(self, commands: list[str]) -> None:
        """By these commands, as they were printed: kubectl waits until each is gone, finalizers and all."""
        person, cluster = self.person, self.team.cluster
        assert len(commands) == 3
        for line in commands:
            person.types(line, seconds=30)
        assert cluster.items("clusterqueues") == cluster.items("resourceflavors") == []
        assert (self.team.ready("model-a"), self.team.ready("model-b")) == (5, 2)
        person.types(f"kubectl delete namespace {NAMESPACE}", seconds=60)


def assert_polled(poll: Poll, least: dict[str, int]) -> None:
    assert poll.looks > 20, poll
    assert {name: poll.lowest[name] >= ready for name, ready in least.items()} == dict.fromkeys(least, True), poll


def main() -> None:
    """Writes the README's parts anew."""
    with TemporaryDirectory() as directory:
        shown = told(Path(directory))
    README.write_text(_SHOWN.sub(lambda match: match[1] + shown[match["name"]], README.read_text()))


if __name__ == "__main__":
    main()
