"""`--server`: the same objects by a dry run in the current cluster, and where its verdicts differ from those offline.

Each object is asked about alone, as `kubectl apply --server-side --dry-run=server` does: nothing is written, so an
object whose namespace is in the input alone is refused. What the API server, Kueue and others say is told as well.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import orjson
import urllib3
from kubernetes.client import ApiClient

from webhook.check.formats.characters import visible
from webhook.check.formats.words import counted
from webhook.check.inputs import Inputs
from webhook.check.result import FAILED, FINE, UNUSABLE, Fault, Found, Place, Result
from webhook.check.state import COMMAND_LINE
from webhook.engine.verdict import Severity
from webhook.kube.objects import group, mapping, sequence, string
from webhook.rules import RULES
from webhook.sources.documents import Document
from webhook.sources.kubeconfig import load_configuration
from webhook.sources.kubeconfig_path import default_kubeconfig
from webhook.sources.source import SourceError

_MANAGER = "floorkeeper-check"
_DEFAULT_NAMESPACE = "default"
_SECONDS = urllib3.Timeout(connect=5, read=40)
"""The API server gives each webhook 30 s at most."""

_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
_DENIED = re.compile(r'admission webhook "[^"]*" denied the request: ')
_RULE = re.compile(rf"\[({'|'.join(re.escape(rule.id) for rule in RULES)})\]$")
_CUT = "…"


class _CannotAsk(Exception):
    """The object, or the cluster for all of them, cannot be asked about."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the cluster says of one object. `denial` is '' where it is let in; texts are the API server's own."""

    place: Place
    key: tuple[str, str, str, str]
    """API group, kind, namespace and name."""

    denial: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def texts(self) -> list[str]:
        """Each thing said, a denial of several findings being several."""
        return [*_DENIED.sub("", self.denial).splitlines(), *self.warnings]

    @property
    def verdict(self) -> str:
        return "denied" if self.denial else "warned" if self.warnings else "allowed"


def ask(inputs: Inputs, namespace: str) -> tuple[list[Answer], list[Fault]]:
    """An answer for each object, and what could not be asked. `namespace` is for objects that name none."""
    answers: list[Answer] = []
    faults: list[Fault] = []
    try:
        cluster = _Cluster()
        for document in inputs.documents:
            try:
                answers.append(cluster.answer(document, namespace or _DEFAULT_NAMESPACE))
            except _CannotAsk as error:
                faults.append(Fault(_place(document), str(error)))
    except (SourceError, urllib3.exceptions.HTTPError, OSError) as error:
        faults.append(Fault(COMMAND_LINE, f"--server: the cluster cannot be asked: {' '.join(str(error).split())}"))
    return answers, faults


class _Cluster:
    """The one of the current kubeconfig. Raises SourceError."""

    def __init__(self) -> None:
        kubeconfig = default_kubeconfig()
        if kubeconfig is None:
            raise SourceError("there is no kubeconfig; set KUBECONFIG, or leave --server out")
        self._client: Any = ApiClient(load_configuration(kubeconfig))
        self._resources: dict[str, dict[str, tuple[str, bool]]] = {}

    def answer(self, document: Document, namespace: str) -> Answer:
        value = document.value
        version, kind = value["apiVersion"], value["kind"]
        plural, namespaced = self._resource(version, kind)
        # The fields of a stored object that an apply may not have.
        metadata = {name: field for name, field in mapping(value.get("metadata")).items() if name != "managedFields"}
        path = _base(version)
        home = ""
        if namespaced:
            home = metadata["namespace"] = string(metadata.get("namespace")) or namespace
            path += f"/namespaces/{quote(home, safe='')}"
        path += f"/{plural}"
        name = string(metadata.get("name"))
        query = {"dryRun": "All", "fieldManager": _MANAGER}
        body = {**value, "metadata": metadata}
        if name:
            path, query = f"{path}/{quote(name, safe='')}", {**query, "force": "true"}
            response = self._request("PATCH", f"{path}?{urlencode(query)}", body, "application/apply-patch+yaml")
        else:
            response = self._request("POST", f"{path}?{urlencode(query)}", body, "application/json")
        warnings = tuple(
            re.sub(r"\\(.)", r"\1", text)
            for header in response.headers.getlist("warning")
            for text in _WARNING.findall(header)
        )
        denial = "" if response.status in (200, 201) else _message(response)
        if response.status == 403 and " is forbidden: User " in denial:
            raise _CannotAsk(f"{denial}; --server needs the right to patch what it asks about")
        return Answer(_place(document), (group(version), kind, home, name), denial, warnings)

    def _resource(self, version: str, kind: str) -> tuple[str, bool]:
        """The plural name of a kind, and whether its objects are in namespaces."""
        if version not in self._resources:
            response = self._request("GET", _base(version))
            if response.status not in (200, 404):
                raise SourceError(f"{_base(version)}: {response.status} {_message(response)}")
            rows = [mapping(row) for row in sequence(mapping(_read(response)).get("resources"))]
            self._resources[version] = {
                string(row.get("kind")): (string(row.get("name")), row.get("namespaced") is True)
                for row in rows
                if "/" not in string(row.get("name"))
            }
        try:
            return self._resources[version][kind]
        except KeyError:
            raise _CannotAsk(f"the cluster serves no {version} {kind}; install what brings it") from None

    def _request(self, method: str, path: str, body: Any = None, content: str = "application/json") -> Any:
        headers = {"Accept": "application/json", "User-Agent": _MANAGER, "Content-Type": content}
        self._client.update_params_for_auth(headers, [], ["BearerToken"], path, method, None)
        response = self._client.rest_client.pool_manager.request(
            method,
            self._client.configuration.host + path,
            headers=headers,
            body=None if body is None else orjson.dumps(body),
            timeout=_SECONDS,
            retries=False,
        )
        if response.status in (401, 429, 503):
            raise SourceError(f"{response.status} {_message(response)}")
        if response.status >= 500:
            # A field that the kind does not have, or a webhook that could not be called: nothing was judged.
            raise _CannotAsk(_message(response))
        return response


def _base(version: str) -> str:
    return f"/apis/{quote(version)}" if "/" in version else f"/api/{quote(version)}"


def _read(response: Any) -> Any:
    try:
        return orjson.loads(response.data)
    except orjson.JSONDecodeError:
        return {}


def _message(response: Any) -> str:
    """A Status object's, or whatever stands in its place: of a proxy, for instance."""
    text = string(mapping(_read(response)).get("message")) or response.data.decode("utf-8", "replace")
    return text.strip() or f"code {response.status}"


def _place(document: Document) -> Place:
    return Place(document.file, document.line, 1)


# What it comes to


def report(answers: Sequence[Answer], faults: Iterable[Fault], offline: Result) -> Iterator[str]:
    """A line for each object, below it what offline says otherwise, then what cannot be used, and a summary."""
    found: dict[tuple[str, str, str, str], list[Found]] = {}
    for each in offline.findings:
        found.setdefault((group(each.api_version), each.kind, each.namespace, each.name), []).append(each)
    differing = 0
    for answer in answers:
        _, kind, namespace, name = answer.key
        own = f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
        said = " | ".join([*answer.denial.splitlines(), *answer.warnings])
        yield visible(f"{answer.place.file}:{answer.place.line}: {answer.verdict}: {own}{said and ': '}{said}")
        differences = list(_differences(answer, found.get(answer.key, [])))
        differing += bool(differences)
        yield from (visible(f"    {text}") for text in differences)
    for fault in faults:
        where = f"{fault.place.file}:{fault.place.line}" if fault.place.file else "floorkeeper"
        yield visible(f"{where}: error: {fault.message}")
    verdicts = [answer.verdict for answer in answers]
    counts = ", ".join(f"{verdicts.count(word):,} {word}" for word in ("allowed", "warned", "denied"))
    yield f"{counted(len(answers), 'object')} asked about: {counts}; {differing:,} differ from offline"


def _differences(answer: Answer, found: Sequence[Found]) -> Iterator[str]:
    denied = any(each.severity is Severity.DENY for each in found)
    if denied != bool(answer.denial):
        yield f"offline: {'denied' if denied else 'allowed'}"
    for each in found:
        if not any(_tells(text, each) for text in answer.texts):
            yield f"offline alone: {each.severity}: {each.message}"
    for text in answer.texts:
        if _RULE.search(text) and not any(_tells(text, each) for each in found):
            yield f"in the cluster alone: {text}"


def _tells(text: str, found: Found) -> bool:
    """Whether a text, which may be cut, says what a finding does. Amounts may differ: the cluster holds more."""
    rule = _RULE.search(text)
    if rule is None:
        return text.endswith(_CUT) and found.message.startswith(text.removesuffix(_CUT))
    return rule[1] == found.rule


def exit_code(answers: Sequence[Answer], faults: Collection[Fault], fail_on: Collection[str], allow_empty: bool) -> int:
    """As `floorkeeper check` has them: 2 for what cannot be used or asked, 1 for denials and what `fail_on` names."""
    if faults or not (answers or allow_empty):
        return UNUSABLE
    texts = [text for answer in answers for text in answer.warnings]
    patched = ["; patched: " in text for text in texts]
    fails = ("patch" in fail_on and any(patched)) or ("warn" in fail_on and not all(patched))
    return FAILED if fails or any(answer.denial for answer in answers) else FINE
