"""The policy in force: read once, and again whenever its file changes."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from webhook.engine.policy import Policy
from webhook.policy.notes import notes
from webhook.policy.parse import parse_policy, read_text
from webhook.policy.problem import PolicyError

_Stamp = tuple[int, ...] | None


class PolicyFile:
    """A policy file that is watched by asking for it; without a path, the defaults for good.

    `policy` is in force. `generation` counts the policies that were: 0 before the first was read, then 1, and one more
    for each different one. `error` is what is wrong with the file as it is now, '' if nothing is. `text` is that of the
    policy in force, None without a file.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.policy = Policy()
        self.text: str | None = None
        self.generation = 0 if path is not None else 1
        self.error = ""
        self._stamp: _Stamp = ()  # of the file that was read last; None: it was missing

    def load(self) -> None:
        """Reads the file. Raises PolicyError, and then leaves the policy as it was."""
        if self.path is not None:
            self._read(self.path, _stamp(self.path))

    def refresh(self) -> bool:
        """Reads the file again if it changed; called every second. Answers whether another policy is in force now.

        Raises nothing: with a broken or missing file, the last good policy stays in force and `error` says why.
        """
        if self.path is None:
            return False
        # Before the file is read: a change during the read is then seen the next time.
        stamp = _stamp(self.path)
        if stamp == self._stamp:
            return False
        before = self.generation
        try:
            self._read(self.path, stamp)
        except PolicyError:
            return False
        return self.generation != before

    def notes(self, today: date) -> tuple[str, ...]:
        """What is odd about the policy in force, with the file's name; `today` is the date in UTC."""
        return tuple(f"{self.path}: {note}" for note in notes(self.policy, today))

    def _read(self, path: Path, stamp: _Stamp) -> None:
        self._stamp = stamp
        try:
            text = read_text(path)
            policy = parse_policy(text, str(path))
        except PolicyError as error:
            self.error = str(error)
            raise
        self.error = ""
        self.text = text
        if self.generation == 0 or policy != self.policy:
            self.policy = policy
            self.generation += 1


def _stamp(path: Path) -> _Stamp:
    """What changes when the file does, None where there is none.

    Symbolic links are followed: a mounted ConfigMap changes by swapping its ..data link. The change time sees what the
    other parts do not: permissions that were mended, and a file of the same size with its old date put back.
    """
    try:
        state = path.stat()
    except OSError:
        return None
    return (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
