"""The webhook configurations as YAML text, for `floorkeeper render` and for manifests/base/webhooks.yaml."""

from __future__ import annotations

from typing import Any

import yaml

from webhook.engine.policy import Policy
from webhook.scope import webhook_configurations

_HEADER = "# Made from the policy and the kinds table: floorkeeper render [--policy FILE] > webhooks.yaml\n"


class _Dumper(yaml.SafeDumper):
    """Block style for CEL, and every value written out where it is used."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the name is PyYAML's
        return True


def _represent_string(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _represent_string)


def render_webhooks(policy: Policy) -> str:
    """Both webhook configurations as YAML documents. The same policy gives the same bytes."""
    # The pure Python dumper, since libyaml's wraps and quotes some strings in another way.
    documents = yaml.dump_all(
        webhook_configurations(policy),
        Dumper=_Dumper,
        explicit_start=True,
        sort_keys=False,
        allow_unicode=True,
        width=100_000,
    )
    return _HEADER + documents
