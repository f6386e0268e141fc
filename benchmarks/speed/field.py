"""All contenders at once, with the guide's cluster as state and the same certificate."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import orjson
import yaml

from benchmarks.speed import idiomatic
from benchmarks.speed.contender import HOST, Contender, free_port, ours, running
from benchmarks.speed.load import Wrk
from benchmarks.speed.review import MARKER, Case, Object, cases
from scripts.controlplane.progress import Progress
from tests.certificate import write_certificate

FLOOR, FASTAPI, CANNED, OURS, GO = "floor", "fastapi", "canned", "ours", "go"
_ROOT = Path(__file__).parents[2]
STATE = _ROOT / "examples" / "cluster"
"""The guide's cluster."""

POLICY = _ROOT / "tests" / "fixtures" / "base" / "policy.yaml"
"""All rules as they are by default, and the queues of model-a and model-b."""

_UID = f"705ab4f5-6393-11e8-b7cc-{MARKER}"


class Lines(Progress):
    """What the person at the terminal sees of builds, on stderr."""

    def say(self, message: str) -> None:
        print(f"speed: {message}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Place:
    """A folder with what every section needs: a certificate, wrk, and the programs that are measured."""

    folder: Path
    authority: bytes
    wrk: Wrk
    go: Path

    @classmethod
    def made(cls, folder: Path) -> Place:
        progress = Lines()
        authority = write_certificate(folder, HOST, "localhost")
        return cls(folder, authority, Wrk(folder, progress), idiomatic.built(progress))

    @contextmanager
    def ours(self, name: str = OURS, state: Path = STATE) -> Iterator[Contender]:
        """Floorkeeper with a folder of manifests as its cluster, ready."""
        port = free_port()
        words = ours(port, self.folder, POLICY, "--state", str(state))
        with running(name, words, port, self.folder, "/readyz") as one:
            yield one

    @contextmanager
    def neighbour(self, name: str, *more: str) -> Iterator[Contender]:
        port = free_port()
        words = [sys.executable, "-m", "benchmarks.speed.neighbours", name, str(port), str(self.folder), *more]
        with running(name, words, port, self.folder) as one:
            yield one

    @contextmanager
    def idiomatic(self) -> Iterator[Contender]:
        port = free_port()
        words = [str(self.go), "--port", str(port), "--certificates", str(self.folder)]
        with running(GO, words, port, self.folder) as one:
            yield one

    @contextmanager
    def contenders(self) -> Iterator[dict[str, Contender]]:
        """Each by its name, in the order of the tables. The canned one has what ours has just answered."""
        with ExitStack() as stack:
            first = stack.enter_context(self.ours())
            answers = self.folder / "answers.json"
            answers.write_text(json.dumps(dict(_answer(first, case) for case in cases()[:2])))
            found = [
                stack.enter_context(self.neighbour(FLOOR)),
                stack.enter_context(self.neighbour(FASTAPI)),
                stack.enter_context(self.neighbour(CANNED, str(answers))),
                first,
                stack.enter_context(self.idiomatic()),
            ]
            _compare(first, found[-1])
            yield {one.name: one for one in found}


def _answer(first: Contender, case: Case) -> tuple[str, str]:
    response = first.ask(case.path, case.body)
    if not response["allowed"]:
        raise RuntimeError(f"{case.name}: ours denied it: {response}")
    value = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    return case.path, orjson.dumps(value).decode().replace(_UID, "%s").replace(MARKER, "0" * len(MARKER))


def _compare(first: Contender, second: Contender) -> None:
    """Whether both come to the same verdict. Raises RuntimeError."""
    for case in cases():
        told = [one.ask(case.path, case.body) for one in (first, second)]
        verdicts = [(response["allowed"], bool(response.get("patch"))) for response in told]
        if verdicts != [(True, case.name == "mutating")] * 2:
            raise RuntimeError(f"{case.name}: {first.name} and {second.name} answered {told}")


def guide() -> list[Object]:
    """The objects of STATE."""
    return [value for file in sorted(STATE.glob("*.yaml")) for value in yaml.safe_load_all(file.read_text())]
