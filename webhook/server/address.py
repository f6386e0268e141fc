"""The sockets to listen on, and how they are called."""

from __future__ import annotations

import contextlib
import os
import socket


class CannotListen(Exception):
    """The address cannot be had: the message says which, and why."""


class UnknownHost(CannotListen):
    """The host is no name or address of this machine's resolver."""


def listen_on(host: str, port: int) -> list[socket.socket]:
    """One socket for each address that the host stands for, all on one port. Port 0 is any that is free.

    '::' is every address, of IPv4 too. Raises CannotListen.
    """
    if host == "::" and not socket.has_dualstack_ipv6():
        # A kernel without IPv6, as some nodes have it.
        host = "0.0.0.0"  # noqa: S104 - as asked
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise UnknownHost(f"host {host!r} cannot be resolved: {_reason(error)}") from None
    sockets: list[socket.socket] = []
    try:
        for family, _, _, _, address in dict.fromkeys(found):
            taken = sockets[0].getsockname()[1] if sockets and not port else port
            sockets.append(_bound(family, (address[0], taken, *address[2:]), both=len(found) == 1))
    except OSError as error:
        for one in sockets:
            one.close()
        raise CannotListen(f"cannot listen on {shown(host, port)}: {_reason(error)}") from None
    return sockets


def _bound(family: int, address: tuple[object, ...], both: bool) -> socket.socket:
    # asyncio turns Nagle's algorithm off only on sockets that name their protocol; with it, every answer waits 40 ms.
    one = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            # A port that was in use a moment ago can be had again at once.
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            with contextlib.suppress(OSError):
                # '::' alone means IPv4 too; where IPv4 has a socket of its own, the two must not collide.
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not both)
        one.bind(address)
        # Now rather than later, so that a port in use is found out here.
        one.listen(2048)
    except OSError:
        one.close()
        raise
    return one


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
