"""One example, sent to the server: what became of it."""

from __future__ import annotations

import yaml

from scripts.quickstart.apiserver import ApiServer
from scripts.quickstart.example import Example
from webhook.report import Outcome


def tried(example: Example, api_server: ApiServer) -> Outcome:
    """Raises BadAnswer."""
    created = api_server.create(example.value)
    return Outcome(
        source=str(example.path),
        kind=example.value["kind"],
        name=example.value["metadata"]["name"],
        before=_yaml(created.sent),
        after=_yaml(created.stored),
        warnings=created.warnings,
        denial=created.denial,
        about=example.about,
    )


def _yaml(value: object) -> str:
    """Sorted, as `kubectl get -o yaml` has it."""
    return yaml.safe_dump(value, allow_unicode=True, width=1000)
