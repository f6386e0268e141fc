"""Floors that are promised to writes which are not stored yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from webhook.kube.quota_facts import FlavorResource


@dataclass(frozen=True, slots=True)
class Reservation:
    """What one write, judged and let through, will make of the floors or of a flavor's nodes.

    `floors` are those that it raises, in billionths as Kueue counts them, by (flavor, resource); those of a
    Volcano Queue have its parent in the flavor's place. `labels` are the nodeLabels of a ResourceFlavor, None for what
    is no flavor.
    """

    kind: str
    name: str
    uid: str
    """Of the admission request."""

    until: str
    """When it ends by itself, in UTC for people: '12:05:40 UTC'."""

    floors: Mapping[FlavorResource, int] = field(default_factory=dict)
    labels: Mapping[str, str] | None = None
