"""What is odd about a policy that can be used: parts of it that have no effect, or not any more."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from webhook.engine.policy import Policy, QueueMapping
from webhook.kube.selector import LabelSelector, name_matches

_MOST_QUEUES = 300
"""Entries of `queues` that are compared with one another: the server asks at each reload, and must not stop for it."""


def notes(policy: Policy, today: date) -> Iterator[str]:
    """Lines of 'PLACE: what is odd; what to do', in the order of a policy's keys. `today` is the date in UTC."""
    yield from _shadowed_queues(policy.queues[:_MOST_QUEUES])
    for index, entry in enumerate(policy.exemptions):
        if entry.until is not None and entry.until < today:
            yield f"exemptions[{index}]: ended on {entry.until} ({entry.reason}); remove it, or set until anew"


def _shadowed_queues(queues: tuple[QueueMapping, ...]) -> Iterator[str]:
    for index, entry in enumerate(queues):
        first = next((at for at, earlier in enumerate(queues[:index]) if _covers(earlier, entry)), None)
        if first is not None:
            yield (
                f"queues[{index}]: never applies, since queues[{first}] comes first and matches all that it matches; "
                "move it up, or remove it"
            )


def _covers(entry: QueueMapping, other: QueueMapping) -> bool:
    """Whether whatever matches `other` is proved to match `entry`."""
    return (
        _pattern_covers(entry.namespace, other.namespace)
        and _pattern_covers(entry.workload, other.workload)
        and _selector_covers(entry.selector, other.selector)
    )


def _pattern_covers(pattern: str, other: str) -> bool:
    # The pattern's own text holds no *, so it is found only in what `other` writes out, which all its names have.
    return name_matches(pattern, other)


def _selector_covers(selector: LabelSelector, other: LabelSelector) -> bool:
    return set(selector.match_labels) <= set(other.match_labels) and set(selector.match_expressions) <= set(
        other.match_expressions
    )
