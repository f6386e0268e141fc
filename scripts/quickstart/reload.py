"""A policy that is edited while the server serves: what the server makes of it, and what changes for the examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scripts.quickstart.apiserver import ApiServer
from scripts.quickstart.example import Example
from scripts.quickstart.server import Server
from scripts.quickstart.trial import tried
from webhook.report import Word

_LOGGER = "floorkeeper.serve"


class Reloads:
    """Follows the server's log. `words` is what became of each example, in their order."""

    def __init__(
        self, server: Server, api_server: ApiServer, examples: Sequence[Example], words: Sequence[Word]
    ) -> None:
        self._server = server
        self._api_server = api_server
        self._examples = examples
        self._words = list(words)

    def news(self) -> Iterator[str]:
        """What there is to tell since the last call, in lines. Sends the examples again. Raises BadAnswer."""
        for entry in self._server.new_log_entries():
            if entry.get("logger") == _LOGGER:
                yield from self._told(entry)

    def _told(self, entry: Mapping[str, Any]) -> Iterator[str]:
        message = str(entry["message"])
        if message == "policy reloaded":
            yield ""
            yield from self._changes()
        elif message == "policy file is broken, the last good policy is in force":
            yield from ("", "policy refused, the last good one stays in force:")
            yield from (f"  {line}" for line in entry["error"].splitlines())
        elif message == "policy file is whole again, and as before":
            yield from ("", message)
        elif entry["level"] == "warning":
            yield f"  {message}"

    def _changes(self) -> Iterator[str]:
        words = [tried(example, self._api_server).word for example in self._examples]
        before, self._words = self._words, words
        changed = [row for row in zip(self._examples, before, words, strict=True) if row[1] is not row[2]]
        if not changed:
            yield "policy read again: no verdict changed"
            return
        yield f"policy read again: {len(changed)} of {len(words)} verdicts changed"
        for example, was, now in changed:
            yield f"  {example.path}: was {was}, is {now}"
