"""Kueue's Configuration, which its ConfigMap holds as the text of a YAML document."""

from __future__ import annotations

from typing import Any

from webhook.kube.names import KUEUE_CONFIG_KEY, KUEUE_CONFIG_MAP
from webhook.kube.objects import mapping, metadata
from webhook.sources.documents import DocumentError, parse_documents

_LONGEST = 256 * 1024
"""Characters. Kueue's own has some 3,000."""

_LONGEST_PROBLEM = 120
"""Characters. It becomes part of a warning, of which the API server keeps 256."""


def with_configuration(value: dict[str, Any]) -> dict[str, Any]:
    """The object, if it is Kueue's ConfigMap with the text replaced by the mapping that it spells, or by a problem."""
    if value.get("kind", "ConfigMap") != "ConfigMap" or metadata(value).get("name") != KUEUE_CONFIG_MAP:
        return value
    text = mapping(value.get("data")).get(KUEUE_CONFIG_KEY)
    return {**value, "data": {KUEUE_CONFIG_KEY: _configuration(text)}} if isinstance(text, str) else value


def _configuration(text: str) -> dict[str, Any] | str:
    if len(text) > _LONGEST:
        return f"is longer than {_LONGEST:,} characters"
    try:
        documents = parse_documents(text.encode(errors="replace"), KUEUE_CONFIG_KEY)
    except DocumentError as error:
        problem = error.problems[0]
        where = f"line {problem.line}: " if problem.line else ""
        return f"cannot be read: {where}{problem.text}"[:_LONGEST_PROBLEM]
    return documents[0].value if len(documents) == 1 else f"holds {len(documents)} objects, not one Configuration"
