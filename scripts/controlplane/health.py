"""Whether a component says of itself that it is ready."""

import http.client
import ssl
import urllib.request
from pathlib import Path


def is_healthy(url: str, authority: Path) -> bool:
    """Whether the URL answers 200; asked as nobody, which health checks allow."""
    tls = urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=str(authority)))
    # Without the second handler a proxy in the caller's environment would be asked for our loopback addresses.
    opener = urllib.request.build_opener(tls, urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=10) as answer:
            return bool(answer.status == 200)
    except (OSError, http.client.HTTPException):
        return False
