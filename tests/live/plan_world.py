"""A small API server on loopback for plans: lists, reads and merge patches of quota objects, and what comes between.

It knows resourceVersion and generation as the real one does, and a hook may act before or after any request.
"""

from __future__ import annotations

import copy
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import typer
import yaml
from typer.testing import CliRunner

from tests.quota_objects import GPU, KUEUE, flavor, node, queue
from webhook.live.plan.command import plan

Object = dict[str, Any]
Hook = Callable[["Asked"], "Refusal | None"]

_GROUP = "/apis/kueue.x-k8s.io"
_KINDS = {
    f"{_GROUP}/v1beta2/clusterqueues": "ClusterQueue",
    f"{_GROUP}/v1beta2/cohorts": "Cohort",
    f"{_GROUP}/v1beta2/resourceflavors": "ResourceFlavor",
    f"{_GROUP}/v1beta2/admissionchecks": "AdmissionCheck",
    f"{_GROUP}/v1beta2/localqueues": "LocalQueue",
    f"{_GROUP}/v1beta2/workloads": "Workload",
    "/api/v1/nodes": "Node",
    "/api/v1/configmaps": "ConfigMap",
}
PLACES = {kind: path for path, kind in _KINDS.items()}

PROGRAM = "import sys, typer; from webhook.live.plan.command import plan; typer.run(plan)"
runner = CliRunner()
app = typer.Typer(rich_markup_mode=None)
app.command()(plan)


@dataclass(frozen=True)
class Asked:
    number: int
    """From 0, of all requests."""
    method: str
    path: str
    body: Any
    query: str = ""

    @property
    def writes(self) -> bool:
        return self.method == "PATCH" and not self.tries

    @property
    def tries(self) -> bool:
        """A dry run."""
        return "dryRun=All" in self.query


@dataclass(frozen=True)
class Refusal:
    code: int
    message: str


@dataclass
class PlanWorld:
    url: str = ""
    objects: dict[str, Object] = field(default_factory=dict)
    """By path."""
    requests: list[Asked] = field(default_factory=list)
    before: Hook = lambda asked: None
    after: Hook = lambda asked: None
    kueue: bool = True
    _version: int = 100
    lock: threading.RLock = field(default_factory=threading.RLock)

    def put(self, *values: Object) -> None:
        for value in values:
            path = f"{PLACES[value['kind']]}/{value['metadata']['name']}"
            self._version += 1
            former = self.objects.get(path, {})
            generation = former.get("metadata", {}).get("generation", 0) + (former.get("spec") != value.get("spec"))
            metadata = {**value["metadata"], "resourceVersion": str(self._version), "generation": generation}
            self.objects[path] = {**copy.deepcopy(value), "metadata": metadata}

    def stored(self, kind: str, name: str) -> Object:
        return copy.deepcopy(self.objects[f"{PLACES[kind]}/{name}"])

    def floor(self, name: str, kind: str = "ClusterQueue") -> int:
        (group,) = self.stored(kind, name)["spec"]["resourceGroups"]
        return int(group["flavors"][0]["resources"][0]["nominalQuota"])

    def set_floor(self, name: str, floor: int) -> None:
        """As somebody else does."""
        value = self.stored("ClusterQueue", name)
        value["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = str(floor)
        self.put(value)

    def touch(self, name: str) -> None:
        """As Kueue does when it writes a status."""
        self.put(self.stored("ClusterQueue", name))

    def answer(self, asked: Asked) -> tuple[int, Any]:
        if asked.path == _GROUP and self.kueue:
            return 200, {"versions": [{"version": "v1beta2"}, {"version": "v1beta1"}]}
        if asked.path in _KINDS:
            items = [value for path, value in sorted(self.objects.items()) if path.rpartition("/")[0] == asked.path]
            return 200, {"kind": f"{_KINDS[asked.path]}List", "apiVersion": KUEUE, "metadata": {}, "items": items}
        found = self.objects.get(asked.path)
        if found is None:
            return 404, {"kind": "Status", "reason": "NotFound", "message": "not found", "code": 404}
        if asked.method == "GET":
            return 200, found
        if asked.tries:
            return 200, {**found, "spec": {**found["spec"], **asked.body["spec"]}}
        if asked.body["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"]:
            return 409, {"kind": "Status", "message": "the object has been modified", "code": 409}
        self.put({**found, "spec": {**found["spec"], **asked.body["spec"]}})
        return 200, self.objects[asked.path]

    def patches(self) -> list[str]:
        """The names of what was to be patched, in order, refused or not; dry runs apart."""
        return [asked.path.rpartition("/")[2] for asked in self.requests if asked.writes]

    def run(self, *words: str, kubeconfig: Path, **options: Any) -> tuple[int, str, str]:
        """Exit code, stdout and stderr of `floorkeeper plan`."""
        result = runner.invoke(app, [*words, "--kubeconfig", str(kubeconfig)], **options)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.stdout, result.stderr


class _Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    world: PlanWorld

    def log_message(self, *_: object) -> None:
        pass

    def _do(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        with self.world.lock:
            url = urlsplit(self.path)
            asked = Asked(len(self.world.requests), self.command, url.path, body, unquote(url.query))
            self.world.requests.append(asked)
            refusal = self.world.before(asked)
            if refusal is not None:
                code, value = refusal.code, {"kind": "Status", "message": refusal.message, "code": refusal.code}
            else:
                code, value = self.world.answer(asked)
                late = self.world.after(asked)
                if late is not None:
                    code, value = late.code, {"kind": "Status", "message": late.message, "code": late.code}
            data = json.dumps(value).encode()
        # Whoever was interrupted does not wait for the answer.
        with suppress(ConnectionError):
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    do_GET = do_PATCH = _do  # noqa: N815


@contextmanager
def running_world(directory: Path) -> Iterator[tuple[PlanWorld, Path]]:
    """With the kubeconfig that leads there."""
    world = PlanWorld()
    handler = type("Handler", (_Answering,), {"world": world})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    world.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "here", "cluster": {"server": world.url}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        "users": [{"name": "me", "user": {"token": "t"}}],
    }
    kubeconfig = directory / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config))
    try:
        yield world, kubeconfig
    finally:
        server.shutdown()
        server.server_close()


def used(value: Object, total: int, borrowed: int = 0, pending: int = 0, of: str = "a", resource: str = GPU) -> Object:
    """A ClusterQueue with the status that Kueue gives it."""
    amounts = {"name": resource, "total": str(total), "borrowed": str(borrowed)}
    status = {"flavorsReservation": [{"name": of, "resources": [amounts]}], "pendingWorkloads": pending}
    return {**value, "status": status}


def guide(model_a: int = 5, model_b: int = 5) -> list[Object]:
    """Ten GPUs, two floors in a Cohort: model-a is idle but for 3, and model-b borrows 2 and has one more gated."""
    return [
        node("gpu-1", gpus=5),
        node("gpu-2", gpus=5),
        flavor("a"),
        used(_reclaiming("model-a", model_a), 3),
        used(_reclaiming("model-b", model_b), 7, 2, 1),
    ]


def _reclaiming(name: str, floor: int) -> Object:
    return queue(name, {"a": str(floor)}, cohortName="models", preemption={"reclaimWithinCohort": "Any"})


def plain(text: str) -> str:
    """Without the blanks of layout: on one line."""
    return re.sub(r"\s+", " ", text)
