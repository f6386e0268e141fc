"""What `kubectl get` prints as JSON, by a proxy that stays: a read takes milliseconds, and no process."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from typing import Any

import httpx

Object = dict[str, Any]
_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

_words = ArgumentParser(prog="kubectl get", add_help=False)
_words.add_argument("target", help="a kind, or kind/name")
_words.add_argument("name", nargs="?")
_words.add_argument("-n", dest="namespace", default="default")
_words.add_argument("-l", dest="labelSelector")
_words.add_argument("--field-selector", dest="fieldSelector")


@dataclass(frozen=True)
class _Resource:
    version: str
    kind: str
    plural: str
    namespaced: bool

    def path(self, namespace: str) -> str:
        base = f"/apis/{self.version}" if "/" in self.version else f"/api/{self.version}"
        return f"{base}/namespaces/{namespace}/{self.plural}" if self.namespaced else f"{base}/{self.plural}"


class Reading:
    def __init__(self, client: httpx.Client) -> None:
        self.client = client
        self._resources: dict[str, _Resource] = {}
        """By every word for it: plural, singular, kind in lower case, short names; and each with `.group` behind it."""

    def read(self, *words: str) -> Any:
        """An object, None for one that is not there; or a List, if no name is given. The words are kubectl's."""
        given = _words.parse_args(words)
        where, resource, name = self._place(given)
        selectors = {key: getattr(given, key) for key in ("labelSelector", "fieldSelector") if getattr(given, key)}
        answer = self.client.get(where, params=selectors)
        if name and answer.status_code == 404:
            return None
        assert answer.status_code == 200, f"get {' '.join(words)}: {answer.text}"
        value = answer.json()
        if not name:
            for item in value["items"]:
                item.update(apiVersion=resource.version, kind=resource.kind)
        return value

    def path(self, *words: str) -> str:
        """Where it would be read."""
        return self._place(_words.parse_args(words))[0]

    def _place(self, given: Namespace) -> tuple[str, _Resource, str]:
        """Path, kind, and name or ''."""
        kind, _, name = given.target.partition("/")
        name = name or given.name or ""
        resource = self._resource(kind.lower())
        collection = resource.path(given.namespace)
        return f"{collection}/{name}" if name else collection, resource, name

    def _resource(self, word: str) -> _Resource:
        if word not in self._resources:
            # CustomResourceDefinitions come during a session.
            self._resources = self._discovered()
        return self._resources[word]

    def _discovered(self) -> dict[str, _Resource]:
        found: dict[str, _Resource] = {}
        for root in ("/api", "/apis"):
            for group in self.client.get(root, headers={"Accept": _DISCOVERY}).json()["items"]:
                name, preferred = group["metadata"].get("name", ""), group["versions"][0]
                version = f"{name}/{preferred['version']}" if name else preferred["version"]
                for entry in preferred["resources"]:
                    plural, kind = entry["resource"], entry["responseKind"]["kind"]
                    resource = _Resource(version, kind, plural, entry["scope"] == "Namespaced")
                    for word in (plural, entry["singularResource"], kind.lower(), *entry.get("shortNames", ())):
                        found.setdefault(word, resource)
                        found.setdefault(f"{word}.{name}", resource)
        return found
