"""Whether a server certificate is one that clients take."""

from __future__ import annotations

import ssl
from contextlib import suppress

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding

from webhook.server.authority import Pair
from webhook.server.certificates import pem_file

_CURVES = ec.SECP256R1, ec.SECP384R1, ec.SECP521R1
_NO_CHECK_TIME = ssl.VerifyFlags(0x200000)
"""X509_V_FLAG_NO_CHECK_TIME of OpenSSL, which the ssl module has no name for."""


def has_known_key(certificate: x509.Certificate) -> bool:
    """Whether the API server can read its key: one that it cannot makes it refuse a whole caBundle."""
    key = certificate.public_key()
    if isinstance(key, ec.EllipticCurvePublicKey):
        return isinstance(key.curve, _CURVES)
    return isinstance(key, rsa.RSAPublicKey | ed25519.Ed25519PublicKey)


def refusal(pair: Pair, authority: x509.Certificate, name: str) -> str:
    """Why a client that trusts this CA alone, and asks for this name, would not take the pair; '' if it would.

    A handshake in memory tells. When the certificates begin and end is not looked at. Raises OSError if it could not be
    tried, as where no file can be opened.
    """
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # As in Go, whatever certificate is given is trusted, also one that another CA signed, and a name is no common name.
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME
    client.hostname_checks_common_name = False
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        client.load_verify_locations(cadata=authority.public_bytes(Encoding.DER))
        with pem_file(pair.certificate) as certificate, pem_file(pair.key) as key:
            # Without a password at hand OpenSSL would ask for one on the terminal.
            server.load_cert_chain(certificate, key, password="")
        answering = server.wrap_bio(to_server, to_client, server_side=True)
        asking = client.wrap_bio(to_client, to_server, server_hostname=name)
        for end in (asking, answering) * 2:
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
        asking.do_handshake()
    except ssl.SSLCertVerificationError as error:
        return error.verify_message.rstrip(".")
    except ssl.SSLError as error:
        return str(error)
    return ""
