"""Lists, page by page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from webhook.kube.objects import mapping, string
from webhook.sources.access import Access
from webhook.sources.connection import Connection

PAGE = 500
"""Objects of one page, which are all that is held of a kind as JSON."""


def list_pages(
    connection: Connection, access: Access, version: str, silence: float, namespace: str = ""
) -> Iterator[tuple[list[dict[str, Any]], str]]:
    """The objects of a kind, of one namespace or of all, with the resourceVersion of each page.

    No version is asked for, so the API server answers with the newest state. Raises what Connection.get raises, such as
    StatusError 410 when the continue token expired between two pages, and ValueError for what is no list.
    """
    query = {"limit": str(PAGE), **access.selectors}
    while True:
        with connection.get(
            access.path(version, namespace), query, accept=access.accept(watch=False), silence=silence
        ) as answer:
            page = mapping(orjson.loads(answer.read()))
        items, metadata = page.get("items"), mapping(page.get("metadata"))
        if "items" not in page or not isinstance(items, list | None):
            raise ValueError("the answer is no list")
        # The API server leaves kind and apiVersion out of the items of built-in lists.
        objects = [{"apiVersion": page.get("apiVersion"), **item} for item in items or ()]
        token = string(metadata.get("continue"))
        del page, items
        yield objects, resource_version(metadata)
        if not token:
            return
        query["continue"] = token


def resource_version(metadata: Any) -> str:
    """metadata.resourceVersion. Raises ValueError without one: a watch from '' or '0' may begin anywhere."""
    version = string(mapping(metadata).get("resourceVersion"))
    if version in ("", "0"):
        raise ValueError("the answer has no resourceVersion")
    return version
