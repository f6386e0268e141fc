"""Where the API server is and who we are: a kubeconfig, or the service account of our pod."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from kubernetes.client import Configuration
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config

from webhook.kube.objects import mapping, sequence, string
from webhook.sources.source import SourceError

_CONNECTIONS = 64
"""Kept open at most: one for each kind that is watched, and some to confirm with."""


def load_configuration(kubeconfig: Path | None) -> Configuration:
    """Reads a kubeconfig, or the in-cluster configuration if it is None. May run an exec plugin. Raises SourceError."""
    configuration = Configuration()
    # The watchers try again by their own rules; urllib3 would do it three times before it says anything.
    configuration.retries = False
    configuration.keep_alive = True
    configuration.connection_pool_maxsize = _CONNECTIONS
    if kubeconfig is None:
        try:
            load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        except (ConfigException, OSError) as error:
            raise SourceError(
                f"no cluster to connect to: {_sentence(error)}; run inside a cluster, pass --kubeconfig FILE, "
                "or use a folder of manifests with --state DIR"
            ) from None
        return configuration
    user = _check(kubeconfig)
    try:
        load_kube_config(str(kubeconfig), client_configuration=configuration)  # type: ignore[no-untyped-call]
    except Exception as error:
        raise SourceError(f"kubeconfig {kubeconfig}: {_sentence(error)}; correct it") from None
    # The kubernetes package logs the failure of an exec plugin, and would go on without any credentials.
    if "exec" in user and not configuration.api_key and not configuration.cert_file:
        plugin = string(mapping(user["exec"]).get("command"))
        raise SourceError(
            f"kubeconfig {kubeconfig}: its exec plugin {plugin!r} gave no credentials; run it by hand to see why"
        )
    return configuration


def context_namespace(kubeconfig: Path) -> str:
    """The namespace of its current context, default without one, as kubectl has it. Raises SourceError."""
    _, context = _current(kubeconfig)
    return string(context.get("namespace")) or "default"


def _check(path: Path) -> dict[str, Any]:
    """The user of the current context, {} without one. Raises SourceError where the package says it badly."""
    content, context = _current(path)
    cluster = string(context.get("cluster"))
    if not _entries(content, "clusters", "cluster").get(cluster, {}).get("server"):
        raise SourceError(f"kubeconfig {path}: cluster {cluster!r} has no server; correct it")
    return _entries(content, "users", "user").get(string(context.get("user")), {})


def _current(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The whole of it, and its current context. Raises SourceError."""
    try:
        content = yaml.safe_load(path.read_bytes())
    except FileNotFoundError:
        raise SourceError(f"kubeconfig {path}: no such file; check the path") from None
    except OSError as error:
        raise SourceError(f"kubeconfig {path}: cannot be read: {error.strerror}; check who may read it") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SourceError(f"kubeconfig {path}: is not YAML: {_sentence(error)}; correct it") from None
    if not isinstance(content, dict):
        raise SourceError(f"kubeconfig {path}: is no kubeconfig; pass a file that kubectl can use")
    current = string(content.get("current-context"))
    contexts = _entries(content, "contexts", "context")
    have = f"it has {', '.join(sorted(contexts)) or 'none'}"
    if not current:
        raise SourceError(f"kubeconfig {path}: current-context is not set; set it to one of its contexts, {have}")
    if current not in contexts:
        raise SourceError(f"kubeconfig {path}: no context {current!r}; set current-context to one that it has, {have}")
    return content, contexts[current]


def _entries(content: dict[str, Any], field: str, inner: str) -> dict[Any, dict[str, Any]]:
    """The named entries of a list such as contexts; damaged ones are left out."""
    return {
        entry["name"]: entry[inner]
        for entry in sequence(content.get(field))
        if isinstance(entry, dict) and isinstance(entry.get("name"), str) and isinstance(entry.get(inner), dict)
    }


def _sentence(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
