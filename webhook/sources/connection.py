"""One API server: its address and credentials, and requests that can be broken off from outside."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlencode

import orjson
import urllib3
from kubernetes.client import ApiClient, ApiException

from webhook.sources.kubeconfig import load_configuration
from webhook.sources.source import SourceError
from webhook.sources.timing import Timing

_CHUNK = 64 * 1024
_LONGEST_LINE = 8 * 2**20
"""Bytes of one watch event; etcd holds nothing above 1.5 MiB by default."""


_LONGEST_MESSAGE = 2000  # characters of why it refused; a webhook's denial may have several lines


class StatusError(Exception):
    """The API server refused, by the code of its answer or in an ERROR event."""

    def __init__(self, code: int, message: str, reason: str = "", retry_after: float = 0.0) -> None:
        super().__init__(f"{code} {message}".strip())
        self.code = code
        self.reason = reason
        """The word of a Status object, such as NotFound; '' if something else answered, for instance a proxy."""

        self.retry_after = retry_after
        """Seconds that the API server asks to wait."""

    @classmethod
    def of(cls, status: Any, code: int = 0, retry_after: float = 0.0) -> StatusError:
        """From a Status object, or whatever stands in its place."""
        status = status if isinstance(status, dict) else {}
        own = status.get("code")
        message, reason = status.get("message"), status.get("reason")
        return cls(
            own if isinstance(own, int) else code,
            message[:_LONGEST_MESSAGE] if isinstance(message, str) else "",
            reason if isinstance(reason, str) else "",
            retry_after,
        )


class Answer:
    """The body of one response, to be closed by `with`."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response
        self._spent = False

    def __enter__(self) -> Answer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Only a body that was read to its end leaves a connection that can be used again.
        if not self._spent:
            self._response.close()
        self._response.release_conn()

    def read(self) -> bytes:
        data = self._response.read()
        self._spent = True
        return data

    def read_lines(self) -> Iterator[list[bytes]]:
        """The complete lines that each piece from the network brought, as soon as it comes; may be none.

        Raises ValueError if the stream ends in the middle of a line.
        """
        rest = b""
        while chunk := self._response.read1(_CHUNK):
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > _LONGEST_LINE:
                raise ValueError(f"an event of more than {_LONGEST_LINE // 2**20} MiB")
            yield [line for line in lines if line.strip()]
        if rest.strip():
            raise ValueError("the stream ended in the middle of an event")
        self._spent = True


class Connection:
    """Requests from any thread. `load` comes first; after `close` every request fails, those under way included."""

    def __init__(self, kubeconfig: Path | None, timing: Timing, clock: Callable[[], float] = time.monotonic) -> None:
        self._kubeconfig = kubeconfig
        self._timing = timing
        self._clock = clock
        # Held while credentials are renewed: an exec plugin must not run in seven threads at once.
        self._lock = threading.Lock()
        self._client: Any = None
        self._loaded = 0.0
        self._rejected = False
        self._closed = False
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    def load(self) -> None:
        """Reads the configuration, and runs its exec plugin if it has one. Raises SourceError."""
        configuration = load_configuration(self._kubeconfig)
        try:
            old, client = self._client, ApiClient(configuration)
        except Exception as error:  # a SOCKS proxy without the package that it needs, for instance
            raise SourceError(f"no connection to {configuration.host}: {error}; check its proxy settings") from error
        client.user_agent = "floorkeeper"
        manager = client.rest_client.pool_manager
        manager.pool_classes_by_scheme = {
            scheme: _telling(pool, self._track) for scheme, pool in manager.pool_classes_by_scheme.items()
        }
        self._client, self._loaded, self._rejected = client, self._clock(), False
        if old is not None:
            old.close()

    def get(self, path: str, query: Mapping[str, str], *, accept: str, silence: float) -> Answer:
        """As `request`, of what is there."""
        return self.request("GET", path, query, accept=accept, silence=silence)

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Mapping[str, Any] | None = None,
        *,
        accept: str = "application/json",
        content_type: str = "application/json",
        silence: float,
    ) -> Answer:
        """An answer with code 200 or 201. Raises StatusError for any other, and whatever urllib3, ssl or a plugin
        raises.

        `body` is an object to create (POST), to write (PUT) or to change (PATCH); it is sent once, whatever happens.
        `silence` is how many seconds may pass without a byte, before the answer or within it.
        """
        client, headers = self._prepare(method, path, accept)
        url = client.configuration.host + path + (f"?{urlencode(query)}" if query else "")
        if body is not None:
            headers["Content-Type"] = content_type
        timeout = self._timing.connect, silence
        try:
            response = client.call_api(method, url, headers, body, _request_timeout=timeout).response
        except urllib3.exceptions.ReadTimeoutError:
            # If packets are lost without an error, then also those of the connections that wait to be used again.
            client.rest_client.pool_manager.clear()
            raise
        except ApiException as error:
            # A handshake that failed, told as an answer with code 0.
            raise ConnectionError(error.reason) from error
        if response.status in (200, 201):
            return Answer(response)
        with Answer(response):
            said = response.read(_CHUNK)
        if response.status == 401:
            self._rejected = True
        retry_after = response.headers.get("Retry-After", "")
        try:
            status = orjson.loads(said)
        except orjson.JSONDecodeError:
            status = {"message": " ".join(said.decode("utf-8", "replace").split())}
        raise StatusError.of(status, response.status, float(retry_after) if retry_after.isdecimal() else 0.0)

    @contextlib.contextmanager
    def broken_off_after(self, seconds: float) -> Iterator[None]:
        """Every request under way is broken off then, however often a byte of the answer comes; others can follow."""
        timer = threading.Timer(seconds, self._break_off)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _break_off(self) -> None:
        for each in list(self._sockets):
            _shut(each)

    def close(self) -> None:
        """Breaks off every request, so that the threads that wait for one go on."""
        self._closed = True
        self._break_off()
        if self._client is not None:
            self._client.close()

    def _prepare(self, method: str, path: str, accept: str) -> tuple[Any, dict[str, str]]:
        with self._lock:
            if self._closed:
                raise ConnectionAbortedError("the connection is closed")
            # Tokens in files and client certificates are read once by the kubernetes package, and may have been
            # renewed on disk since.
            if self._rejected and self._clock() - self._loaded >= self._timing.renewal:
                self.load()
            client = self._client
            headers = {"Accept": accept, "User-Agent": client.user_agent}
            client.update_params_for_auth(headers, [], ["BearerToken"], path, method, None)
        return client, {name: value.strip() for name, value in headers.items()}

    def _track(self, each: socket.socket | None) -> None:
        if each is not None:
            self._sockets.add(each)
            if self._closed:
                _shut(each)


def _telling(pool: Any, track: Callable[[socket.socket | None], None]) -> type:
    """A kind of connection pool (direct, or by way of a proxy) that tells us its sockets.

    Nothing else ends a wait for the first byte of an answer.
    """
    connection = pool.ConnectionCls

    def connect(self: Any) -> None:
        connection.connect(self)
        track(self.sock)

    told = type(connection.__name__, (connection,), {"connect": connect})
    return type(pool.__name__, (pool,), {"ConnectionCls": told})


def _shut(each: socket.socket) -> None:
    # The plain socket's own method: that of ssl would take the TLS object away from under a thread that reads.
    with contextlib.suppress(OSError, TypeError):
        socket.socket.shutdown(each, socket.SHUT_RDWR)
