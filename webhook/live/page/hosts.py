"""Which names the page is taken under.

A browser lets a foreign page read ours if its own name is made to stand for our address (DNS rebinding); what the
browser then asks for is that foreign name. An address in its place cannot be made to stand for another.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Sequence

from webhook.check.formats.characters import visible

_HOST = re.compile(r"(?:\[(?P<six>[^\]]*)\]|(?P<name>[^:]*))(?::[0-9]*)?")
_LONGEST_QUOTE = 100


class Hosts:
    """Addresses, localhost and some names, with any port, in upper or lower case."""

    def __init__(self, names: Collection[str] = ()) -> None:
        named = {_plain(name) for name in names if name}
        self._names = frozenset({"localhost"} | {name for name in named if not _is_address(name)})

    def refusal(self, said: Sequence[bytes]) -> str:
        """'' if a request with these Host headers is taken, else what is wrong and what to do."""
        if len(said) != 1:
            return f"a request must name one Host, this one names {len(said)}; {self._taken()}"
        text = said[0].decode("latin-1").strip()
        match = _HOST.fullmatch(text)
        if match is not None:
            six, name = match["six"], match["name"]
            if _is_address(six, 6) if six is not None else _is_address(name, 4) or _plain(name) in self._names:
                return ""
        return f'the page is not taken under the name "{visible(text[:_LONGEST_QUOTE])}"; {self._taken()}'

    def _taken(self) -> str:
        return (
            f"open it by an IP address or as {', '.join(sorted(self._names, key=_localhost_first))}; "
            "floorkeeper serve --page-name <name> lets another name in"
        )


def _localhost_first(name: str) -> tuple[bool, str]:
    return name != "localhost", name


def _plain(name: str) -> str:
    return name.removesuffix(".").lower()


def _is_address(text: str, version: int = 0) -> bool:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return False
    return version in (0, found.version)
