"""`floorkeeper serve`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from webhook.commands.cluster import cluster_of, managed_certificate, source_of
from webhook.commands.failure import Failure

_LAST_PORT = 65535
_LONGEST_NAME = 253
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)


def _port(value: str | int) -> int:
    text = str(value)  # the default comes here as the number that it is
    if not text.isascii() or not text.isdigit() or len(text) > len(str(_LAST_PORT)) or int(text) > _LAST_PORT:
        raise typer.BadParameter(f"must be a whole number from 0 to {_LAST_PORT}, is {text}")
    return int(text)


def _secret_name(value: str) -> str:
    if len(value) > _LONGEST_NAME or not _OBJECT_NAME.fullmatch(value):
        raise typer.BadParameter(f"must be the name of a Secret, is {value!r}; try floorkeeper-tls")
    return value


def serve(
    host: Annotated[str, typer.Option(help="Name or address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(parser=_port, metavar="<port>", help="Port; 0 is any free one.")] = 8443,
    policy: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Policy file; without it, the defaults.")
    ] = None,
    state: Annotated[
        Path | None, typer.Option(exists=True, file_okay=False, help="Folder of manifests that stands for a cluster.")
    ] = None,
    kubeconfig: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="The cluster to watch; else the one around us.")
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Certificate with its chain, in PEM.")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="The certificate's key, in PEM.")
    ] = None,
    tls_secret: Annotated[
        str | None,
        typer.Option(
            parser=_secret_name,
            metavar="<name>",
            help="Secret of our namespace in which to keep a CA and certificate of our own; the caBundle is kept too.",
        ),
    ] = None,
    client_ca: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="CAs, in PEM: reviews need a client certificate that one signed."
        ),
    ] = None,
    client_name: Annotated[
        list[str] | None,
        typer.Option(metavar="<name>", help="Common or DNS name that a client certificate must have; may be repeated."),
    ] = None,
    drain_seconds: Annotated[
        float,
        typer.Option(min=0, max=3600, metavar="<seconds>", help="After SIGTERM, answer on for this long, not ready."),
    ] = 3.0,
) -> None:
    """Answer the API server's admission reviews, over HTTPS.

    Without --tls-cert and --tls-key, or --tls-secret, a self-signed certificate is made. Changed files are read again.
    """
    if state is not None and kubeconfig is not None:
        raise Failure("give --state or --kubeconfig, not both: facts come from one place", is_usage=True)
    if (tls_cert is None) != (tls_key is None):
        what = "--tls-cert and --tls-key belong together: give both, or neither for a self-signed pair"
        raise Failure(what, is_usage=True)
    if tls_secret is not None and (tls_cert is not None or state is not None):
        what = "--state has no Secrets" if tls_cert is None else "the certificate is kept in one place"
        raise Failure(f"give --tls-secret without --tls-cert, --tls-key and --state: {what}", is_usage=True)
    if client_name and client_ca is None:
        raise Failure("--client-name needs --client-ca: names count only if a CA vouches for them", is_usage=True)
    source, name = source_of(state, kubeconfig)
    from webhook.server.process import CannotServe, Settings
    from webhook.server.process import serve as serve_until_signal

    settings = Settings(
        host,
        port,
        source,
        name,
        policy,
        tls_cert,
        tls_key,
        managed=None if tls_secret is None else lambda: managed_certificate(cluster_of(kubeconfig), tls_secret),
        client_ca=client_ca,
        client_names=frozenset(client_name or ()),
        drain_seconds=drain_seconds,
    )
    try:
        serve_until_signal(settings)
    except CannotServe as error:
        raise Failure(str(error), error.code) from None
