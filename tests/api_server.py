"""A small API server on loopback: lists, watches, and the faults that a real one cannot be made to show."""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import yaml

from webhook.kube.kinds import BUILT_IN, KINDS
from webhook.kube.workload_facts import ADMITTED

Object = dict[str, Any]

_KINDS = {
    **{row.resource: (f"{row.group}/{row.versions[0]}".removeprefix("/"), row.kind) for row in KINDS.rows},
    "namespaces": ("v1", "Namespace"),
    "resourcequotas": ("v1", "ResourceQuota"),
    "pods": ("v1", "Pod"),
    "deployments": ("apps/v1", "Deployment"),
    "statefulsets": ("apps/v1", "StatefulSet"),
    "localqueues": ("kueue.x-k8s.io/v1beta2", "LocalQueue"),
    "clusterqueues": ("kueue.x-k8s.io/v1beta2", "ClusterQueue"),
    "cohorts": ("kueue.x-k8s.io/v1beta2", "Cohort"),
    "resourceflavors": ("kueue.x-k8s.io/v1beta2", "ResourceFlavor"),
    "admissionchecks": ("kueue.x-k8s.io/v1beta2", "AdmissionCheck"),
    "workloadpriorityclasses": ("kueue.x-k8s.io/v1beta2", "WorkloadPriorityClass"),
    "nodes": ("v1", "Node"),
    "limitranges": ("v1", "LimitRange"),
    "configmaps": ("v1", "ConfigMap"),
    "runtimeclasses": ("node.k8s.io/v1", "RuntimeClass"),
    "horizontalpodautoscalers": ("autoscaling/v2", "HorizontalPodAutoscaler"),
    "scaledobjects": ("keda.sh/v1alpha1", "ScaledObject"),
    "queues": ("scheduling.volcano.sh/v1beta1", "Queue"),
    "resourceclaimtemplates": ("resource.k8s.io/v1", "ResourceClaimTemplate"),
    "resourceclaims": ("resource.k8s.io/v1", "ResourceClaim"),
    "deviceclasses": ("resource.k8s.io/v1", "DeviceClass"),
    "secrets": ("v1", "Secret"),
    "leases": ("coordination.k8s.io/v1", "Lease"),
    "replicasets": ("apps/v1", "ReplicaSet"),
    "cronjobs": ("batch/v1", "CronJob"),
    "workloads": ("kueue.x-k8s.io/v1beta2", "Workload"),
    "policyreports": ("wgpolicyk8s.io/v1alpha2", "PolicyReport"),
    "clusterpolicyreports": ("wgpolicyk8s.io/v1alpha2", "ClusterPolicyReport"),
    "mutatingwebhookconfigurations": ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
    "validatingwebhookconfigurations": ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
    **{row.resource: (f"{row.group}/{row.versions[0]}", row.kind) for row in ADMITTED},
}
RESOURCES = {kind: resource for resource, (_, kind) in _KINDS.items()}
KUEUE, KEDA, VOLCANO, DRA = "kueue.x-k8s.io", "keda.sh", "scheduling.volcano.sh", "resource.k8s.io"
REPORTS = "wgpolicyk8s.io"


@dataclass(frozen=True)
class Request:
    verb: str
    """list, watch, get, discover, apply or delete."""

    resource: str
    """The plural name; the API group at discover."""

    namespace: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    at: float


class Answering(BaseHTTPRequestHandler):
    """One request. A fault gets it and answers as it likes."""

    protocol_version = "HTTP/1.1"
    # Head and body are two packets, and the second would wait 40 ms for the client to say that it has the first.
    disable_nagle_algorithm = True
    server: _Server
    asked: Request
    body: Object
    """Of a patch."""

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.server.api.answer(self)

    def do_PATCH(self) -> None:
        self.body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        applies = self.headers["Content-Type"] == "application/apply-patch+yaml"
        self.server.api.answer(self, "apply" if applies else "patch")

    def do_DELETE(self) -> None:
        self.server.api.answer(self, "delete")

    def send(self, code: int, value: Any, **headers: str) -> None:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(code)
        for name, text in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def status(self, code: int, reason: str = "", message: str = "", **headers: str) -> None:
        self.send(code, status(code, reason, message), **headers)

    def begin(self) -> None:
        """The head of a stream; `say` and `end` follow."""
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def say(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def event(self, kind: str, value: Object) -> None:
        self.say(json.dumps({"type": kind, "object": value}).encode() + b"\n")

    def end(self) -> None:
        self.say(b"")

    def hang(self) -> None:
        """Nothing more, for ever."""
        self.server.api.closing.wait(30)
        self.close_connection = True

    def cut(self) -> None:
        """The connection is gone, in the middle of whatever was said."""
        self.close_connection = True


Fault = Callable[[Answering], None]


def status(code: int, reason: str = "", message: str = "") -> Object:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # One connection for each kind, all at once.
    request_queue_size = 128
    allow_reuse_address = True
    api: ApiServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is what half of these tests are about."""


@dataclass
class ApiServer:
    """Holds objects by resource, namespace and name, and the events that made them what they are."""

    port: int = 0
    objects: dict[str, dict[tuple[str, str], Object]] = field(default_factory=lambda: defaultdict(dict))
    events: dict[str, list[tuple[int, Object | None, Object | None]]] = field(default_factory=lambda: defaultdict(list))
    """Version, the object before it and the object after it, both with this version."""

    version: int = 100
    oldest: int = 0
    """Watches from before this version have expired."""

    bookmark_seconds: float = 0.2
    served: dict[str, tuple[str, ...]] = field(
        default_factory=lambda: {
            KUEUE: ("v1beta1", "v1beta2"),
            KEDA: ("v1alpha1",),
            VOLCANO: ("v1beta1",),
            DRA: ("v1",),
            REPORTS: (),
            **{row.group: row.versions for row in ADMITTED if row.group not in BUILT_IN},
        }
    )
    """The versions of the groups of CRDs; none: the group is not installed."""

    absent: set[str] = field(default_factory=set)
    """Resources that are not served, though others of their group are."""

    forbidden: set[tuple[str, str]] = field(default_factory=set)
    """(verb, resource)."""

    tokens: set[str] = field(default_factory=lambda: {"secret"})
    requests: list[Request] = field(default_factory=list)
    faults: dict[tuple[str, str], deque[Fault]] = field(default_factory=lambda: defaultdict(deque))
    """What the next requests of a verb to a resource get instead of an answer, one each."""

    def __post_init__(self) -> None:
        self.changed = threading.Condition()
        self.closing = threading.Event()
        self.epoch = 0

    # For tests

    def put(self, value: Object) -> None:
        resource = RESOURCES[value["kind"]]
        metadata = value["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        with self.changed:
            self.version += 1
            before = self.objects[resource].get(key)
            stored = {**value, "metadata": {**metadata, "resourceVersion": str(self.version)}}
            self.objects[resource][key] = stored
            self._happened(resource, before, stored)

    def delete(self, kind: str, namespace: str, name: str) -> None:
        resource = RESOURCES[kind]
        with self.changed:
            self.version += 1
            self._happened(resource, self.objects[resource].pop((namespace, name)), None)

    def _happened(self, resource: str, before: Object | None, after: Object | None) -> None:
        version = {"resourceVersion": str(self.version)}
        last = before and {**before, "metadata": {**before["metadata"], **version}}
        self.events[resource].append((self.version, last, after))
        self.changed.notify_all()

    def compact(self) -> None:
        """Forgets every event, as etcd does after five minutes, and ends all watches: to go on from where they were is
        too late. In one step, lest a bookmark takes a watch beyond what it has missed."""
        with self.changed:
            self.version += 1
            self.oldest = self.version
            self.events.clear()
            self.end_watches()

    def end_watches(self) -> None:
        """As the API server does when it shuts down."""
        with self.changed:
            self.epoch += 1
            self.changed.notify_all()

    def asked(self, verb: str, resource: str) -> list[Request]:
        return [each for each in self.requests if (each.verb, each.resource) == (verb, resource)]

    def kubeconfig(self, directory: Path, user: Object | None = None) -> Path:
        path = directory / "kubeconfig"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
            "clusters": [{"name": "here", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
            "users": [{"name": "me", "user": user or {"token": "secret"}}],
        }
        path.write_text(yaml.safe_dump(config))
        return path

    # Serving

    @contextmanager
    def running(self) -> Iterator[ApiServer]:
        self.closing.clear()
        server = _Server(("127.0.0.1", self.port), Answering)
        server.api = self
        self.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield self
        finally:
            self.closing.set()
            with self.changed:
                self.changed.notify_all()
            server.shutdown()
            server.server_close()
            thread.join()

    def answer(self, to: Answering, written: str = "") -> None:
        """`written` is the verb of a request that is none to read."""
        # Before anything else: a watch that is asked for before all are ended is one of them.
        epoch = self.epoch
        parts = urlsplit(to.path)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        steps = parts.path.strip("/").split("/")
        steps = steps[2:] if steps[0] == "api" else steps[3:]
        namespace = name = ""
        if len(steps) == 4 and steps[0] == "namespaces":
            _, namespace, resource, name = steps
        elif len(steps) == 3 and steps[0] == "namespaces":
            _, namespace, resource = steps
        elif len(steps) == 2:
            resource, name = steps
        else:
            resource = steps[0] if steps else parts.path.rpartition("/")[2]
        verb = "discover" if not steps else "get" if name else "watch" if query.get("watch") else "list"
        verb = written or verb
        to.asked = Request(verb, resource, namespace, parts.path, query, dict(to.headers.items()), time.monotonic())
        self.requests.append(to.asked)
        token = to.headers.get("authorization", "").removeprefix("Bearer ")
        queue = self.faults[verb, resource]
        if queue:
            queue.popleft()(to)
        elif token not in self.tokens:
            to.status(401, "Unauthorized", "Unauthorized")
        elif (verb, resource) in self.forbidden:
            to.status(403, "Forbidden", f'{resource} is forbidden: User "me" cannot {verb} resource "{resource}"')
        elif not self._serves(parts.path, resource):
            to.send(404, b"404 page not found\n")
        elif verb == "discover" and resource not in self.served:
            _, _, group, version = parts.path.split("/")
            rows = [{"name": name} for name, (own, _) in _KINDS.items() if own == f"{group}/{version}"]
            kinds = [row for row in rows if row["name"] not in self.absent]
            to.send(200, {"kind": "APIResourceList", "resources": kinds})
        elif verb == "discover":
            to.send(200, {"kind": "APIGroup", "versions": [{"version": each} for each in self.served[resource]]})
        elif verb == "get":
            found = self.objects[resource].get((namespace, name))
            to.send(200, found) if found else to.status(404, "NotFound", f'{resource} "{name}" not found')
        elif verb == "apply":
            self.put(to.body)
            to.send(200, to.body)
        elif verb == "delete" and (namespace, name) not in self.objects[resource]:
            to.status(404, "NotFound", f'{resource} "{name}" not found')
        elif verb == "delete":
            self.delete(_KINDS[resource][1], namespace, name)
            to.send(200, {"kind": "Status", "status": "Success"})
        elif verb == "watch":
            self.watch(to, resource, query, epoch)
        else:
            self.list(to, resource, query, namespace)

    def _serves(self, path: str, resource: str) -> bool:
        _, _, group, *version = path.split("/")[:4]
        versions = self.served.get(group)
        return resource not in self.absent and (
            versions is None or (version[0] in versions if version else bool(versions))
        )

    def list(self, to: Answering, resource: str, query: dict[str, str], namespace: str) -> None:
        """The continue token says where to go on and which version the list is of."""
        version, kind = _KINDS[resource]
        with self.changed:
            found = [
                {key: part for key, part in value.items() if key not in ("kind", "apiVersion")}
                for (where, _), value in sorted(self.objects[resource].items())
                if (not namespace or where == namespace) and _selected(value, query)
            ]
            start, at = map(int, query.get("continue", f"0 {self.version}").split())
        end = start + int(query["limit"])
        metadata = {"resourceVersion": str(at)} | ({"continue": f"{end} {at}"} if end < len(found) else {})
        to.send(200, {"kind": f"{kind}List", "apiVersion": version, "metadata": metadata, "items": found[start:end]})

    def watch(self, to: Answering, resource: str, query: dict[str, str], epoch: int) -> None:
        at = int(query["resourceVersion"])
        end = time.monotonic() + float(query["timeoutSeconds"])
        to.begin()
        if at < self.oldest:
            to.event("ERROR", status(410, "Expired", "too old resource version"))
            to.end()
            return
        bookmark = time.monotonic() + self.bookmark_seconds
        while time.monotonic() < end and self.epoch == epoch and not self.closing.is_set():
            with self.changed:
                if self.version <= at and self.epoch == epoch and not self.closing.is_set():
                    self.changed.wait(max(0.01, min(bookmark, end) - time.monotonic()))
                if self.epoch != epoch:
                    break
                news = [each for each in self.events[resource] if each[0] > at]
                at = max(at, self.version)
            for _, before, after in news:
                # What comes to be selected is added to those that are watched, and what no longer is, is deleted.
                was, now = before and _selected(before, query), after and _selected(after, query)
                if was or now:
                    to.event(("MODIFIED" if was else "ADDED") if now else "DELETED", (after if now else before) or {})
            if time.monotonic() >= bookmark:
                to.event("BOOKMARK", {"metadata": {"resourceVersion": str(at)}})
                bookmark = time.monotonic() + self.bookmark_seconds
        if not self.closing.is_set():
            to.end()
        else:
            to.close_connection = True


def _selected(value: Object, query: dict[str, str]) -> bool:
    labels = value["metadata"].get("labels", {})
    wanted = query.get("labelSelector", "")
    by_label = all(_label_is(labels, term) for term in wanted.split(",") if term)
    terms = query["fieldSelector"].split(",") if "fieldSelector" in query else []
    return by_label and all(_field_is(value, term) for term in terms)


def _label_is(labels: Object, term: str) -> bool:
    """A term of a labelSelector: a, !a, a=b."""
    name, equals, wanted = term.removeprefix("!").partition("=")
    return labels.get(name) == wanted if equals else (name in labels) is not term.startswith("!")


def _field_is(value: Object, term: str) -> bool:
    """A term of a fieldSelector: status.phase!=Failed, metadata.name=x."""
    path, _, wanted = term.partition("=")
    found: Any = value
    for step in path.removesuffix("!").split("."):
        found = found.get(step, "") if isinstance(found, dict) else ""
    return bool((found == wanted) is not path.endswith("!"))
