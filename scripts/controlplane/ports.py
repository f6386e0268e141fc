"""Loopback ports that nobody else takes between the moment we pick them and the moment a component listens."""

import random
import socket
from pathlib import Path
from typing import Self

from .progress import ClusterError

LOOPBACK = "127.0.0.1"


def url(port: int, scheme: str = "https") -> str:
    return f"{scheme}://{LOOPBACK}:{port}"


class Ports:
    """Ports reserved against other `up`s on this machine for as long as its block lasts.

    A reservation is a socket in the abstract namespace named after the port: the kernel allows one holder, and lets go
    of it when the process ends, however it ends. Ports come from below the ephemeral range, so that no outgoing
    connection is given one of them by chance.
    """

    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def reserve(self) -> int:
        low, high = _port_range()
        for port in random.sample(range(low, high), min(500, high - low)):
            holder = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                holder.bind(f"\0floorkeeper-cluster-port-{port}")
                with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
                    probe.bind((LOOPBACK, port))
            except OSError:
                holder.close()
                continue
            self._held.append(holder)
            return port
        raise ClusterError(f"no free port between {low} and {high} on {LOOPBACK}; stop what holds them")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for holder in self._held:
            holder.close()
        self._held.clear()


def _port_range() -> tuple[int, int]:
    ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    return (20000, ephemeral) if ephemeral > 21000 else (20000, 32000)
