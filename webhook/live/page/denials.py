"""The last denials, in memory: who was refused what, by which rules, when."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

MOST = 100
_LONGEST_NAME = 253
_LONGEST_MESSAGE = 1024
_MOST_MESSAGES = 10


@dataclass(frozen=True, slots=True)
class Denial:
    """`first` and `last` are seconds since the epoch; `count` says how often the very same was refused.

    `messages` are whole sentences as the person got them, at most 10 of them.
    """

    operation: str
    kind: str
    namespace: str
    name: str
    user: str
    dry_run: bool
    rules: tuple[str, ...]
    messages: tuple[str, ...]
    first: float
    last: float
    count: int = 1


class Denials:
    """A controller that tries again and again is one entry with a count. Of more than `MOST` the oldest goes."""

    def __init__(self, most: int = MOST, clock: Callable[[], float] = time.time) -> None:
        self._most = most
        self._clock = clock
        self._kept: OrderedDict[tuple[object, ...], Denial] = OrderedDict()

    def record(
        self,
        *,
        operation: str,
        kind: str,
        namespace: str,
        name: str,
        user: str,
        dry_run: bool,
        rules: Iterable[str],
        messages: Iterable[str],
    ) -> None:
        """One denied request. Costs some microseconds, and raises nothing for any text."""
        now = self._clock()
        denial = Denial(
            _text(operation, _LONGEST_NAME),
            _text(kind, _LONGEST_NAME),
            _text(namespace, _LONGEST_NAME),
            _text(name, _LONGEST_NAME),
            _text(user, _LONGEST_NAME),
            dry_run,
            tuple(rules),
            tuple(_text(message, _LONGEST_MESSAGE) for message in list(messages)[:_MOST_MESSAGES]),
            now,
            now,
        )
        key = (
            denial.operation,
            denial.kind,
            denial.namespace,
            denial.name,
            denial.user,
            denial.dry_run,
            denial.rules,
            denial.messages,
        )
        before = self._kept.pop(key, None)
        if before is not None:
            denial = replace(denial, first=before.first, count=before.count + 1)
        self._kept[key] = denial
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def latest(self) -> tuple[Denial, ...]:
        """The latest first."""
        return tuple(reversed(self._kept.values()))


def _text(text: str, longest: int) -> str:
    """Names in a review can be megabytes, and hold halves of characters, which no JSON can."""
    return text[:longest].encode(errors="replace").decode()
