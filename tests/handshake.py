"""A TLS handshake without a network."""

from __future__ import annotations

import ssl

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding


def trusting(*authorities: x509.Certificate) -> ssl.SSLContext:
    """A client that trusts these CAs alone, and holds every certificate to RFC 5280."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.load_verify_locations(cadata=b"".join(each.public_bytes(Encoding.DER) for each in authorities))
    return context


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends, once each has agreed. Raises ssl.SSLError for what either does not."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server, server_hostname=name)
    answering = server.wrap_bio(to_server, to_client, server_side=True)
    left = [asking, answering]
    for _ in range(10):
        for end in list(left):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            left.remove(end)
        if not left:
            return asking, answering
    raise AssertionError("the handshake never ended")
