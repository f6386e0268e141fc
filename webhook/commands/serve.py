"""`floorkeeper serve`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from webhook.commands.cluster import cluster_of, managed_certificate, queues_of, source_of
from webhook.commands.failure import Failure

if TYPE_CHECKING:
    from webhook.server.audits import AuditSettings
    from webhook.server.page import PageSettings

_LAST_PORT = 65535
_LONGEST_NAME = 253
_SHORTEST, _LONGEST = 60.0, 86400.0  # seconds between two audits
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)


def _port(value: str | int) -> int:
    text = str(value)  # the default comes here as the number that it is
    if not text.isascii() or not text.isdigit() or len(text) > len(str(_LAST_PORT)) or int(text) > _LAST_PORT:
        raise typer.BadParameter(f"must be a whole number from 0 to {_LAST_PORT}, is {text}")
    return int(text)


def _interval(value: str | float) -> float:
    # It costs most of a second, and few give it.
    from webhook.live.waiting import seconds_of

    try:
        seconds = seconds_of(str(value))
    except ValueError:
        seconds = 0.0
    if not _SHORTEST <= seconds <= _LONGEST:
        raise typer.BadParameter(f"must be a duration from 1m to 24h, is {value!r}; try 10m")
    return seconds


def _secret_name(value: str) -> str:
    if len(value) > _LONGEST_NAME or not _OBJECT_NAME.fullmatch(value):
        raise typer.BadParameter(f"must be the name of a Secret, is {value!r}; try floorkeeper-tls")
    return value


def _dns_name(value: str) -> str:
    if len(value) > _LONGEST_NAME or not _OBJECT_NAME.fullmatch(value.lower()):
        raise typer.BadParameter(f"must be a DNS name without scheme and port, is {value!r}; try floors.example.com")
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
    page_port: Annotated[
        int | None,
        typer.Option(
            parser=_port, metavar="<port>", help="Serve a read-only page there, over plain HTTP; 0 is any free port."
        ),
    ] = None,
    page_host: Annotated[str, typer.Option(help="Name or address to serve the page on.")] = "127.0.0.1",
    page_name: Annotated[
        list[str] | None,
        typer.Option(
            parser=_dns_name,
            metavar="<name>",
            help="Name that browsers know the page by, such as an Ingress's host; may be repeated.",
        ),
    ] = None,
    audit_every: Annotated[
        float | None,
        typer.Option(
            parser=_interval,
            metavar="<duration>",
            help="Audit the cluster this often, such as 10m: for metrics, PolicyReports and the page.",
        ),
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
    if page_name and page_port is None:
        raise Failure("--page-name needs --page-port: without it there is no page", is_usage=True)
    if audit_every is not None and state is not None:
        what = "give --audit-every without --state: an audit is of a cluster; of a folder, floorkeeper check is"
        raise Failure(what, is_usage=True)
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
        page=None if page_port is None else _page(page_host, page_port, page_name, state, kubeconfig),
        audits=None if audit_every is None else _audits(audit_every, kubeconfig, tls_secret),
    )
    try:
        serve_until_signal(settings)
    except CannotServe as error:
        raise Failure(str(error), error.code) from None


def _page(host: str, port: int, names: list[str] | None, state: Path | None, kubeconfig: Path | None) -> PageSettings:
    from webhook.server.page import PageSettings

    return PageSettings(host, port, lambda: queues_of(state, kubeconfig), frozenset(names or ()))


def _audits(every: float, kubeconfig: Path | None, tls_secret: str | None) -> AuditSettings:
    from webhook.live.audit.run import TLS_SECRET
    from webhook.server.audits import AuditSettings

    return AuditSettings(every, cluster_of(kubeconfig), tls_secret or TLS_SECRET)
