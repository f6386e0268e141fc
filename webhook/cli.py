"""The command `floorkeeper`. Doors are imported by the commands that need them, for each costs most of a second."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from webhook import __version__

if TYPE_CHECKING:
    from webhook.sources.source import Source

_USAGE = 2  # exit code: what the command line says cannot be done

cli = typer.Typer(
    name="floorkeeper",
    help="Keeps the invariants that make Kueue-based replica rebalancing safe.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
policy = typer.Typer(help="What an admin decides.", rich_markup_mode=None)
cli.add_typer(policy, name="policy")


class _Failure(typer.TyperException):
    """One clear sentence on stderr, and an exit code."""

    def __init__(self, message: str, code: int = _USAGE) -> None:
        super().__init__(message)
        self.exit_code = code


def main() -> None:
    """The entry point of the command line. Every error is one message on stderr, without usage text."""
    try:
        code = cli(sys.argv[1:] or ["--help"], prog_name="floorkeeper", standalone_mode=False)
    except typer.TyperException as error:
        print(f"floorkeeper: {error.format_message()}", file=sys.stderr)
        code = error.exit_code
    except typer.Abort:
        code = 130
    sys.exit(code or 0)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"floorkeeper {__version__}")
        raise typer.Exit


@cli.callback()
def _floorkeeper(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@cli.command()
def serve(
    host: Annotated[str, typer.Option(help="Name or address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 is any free one.")] = 8443,
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
) -> None:
    """Answer the API server's admission reviews, over HTTPS.

    Without --tls-cert and --tls-key, a self-signed certificate is made. Changed files are read again.
    """
    if state is not None and kubeconfig is not None:
        raise _Failure("give --state or --kubeconfig, not both: facts come from one place")
    if (tls_cert is None) != (tls_key is None):
        raise _Failure("--tls-cert and --tls-key belong together: give both, or neither for a self-signed pair")
    source, name = _source(state, kubeconfig)
    from webhook.server.process import CannotServe, Settings
    from webhook.server.process import serve as serve_until_signal

    settings = Settings(host, port, source, name, policy, tls_cert, tls_key)
    try:
        serve_until_signal(settings)
    except CannotServe as error:
        raise _Failure(str(error), error.code) from None


@cli.command()
def render(
    policy: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Policy file; without it, the defaults.")
    ] = None,
) -> None:
    """Print the webhook configurations whose selectors, kinds and accelerators agree with the policy."""
    from webhook.engine.policy import Policy
    from webhook.policy import PolicyError, read_policy
    from webhook.render import render_webhooks

    try:
        wanted = Policy() if policy is None else read_policy(policy)
    except PolicyError as error:
        raise _Failure(str(error)) from None
    print(render_webhooks(wanted), end="")


def _source(state: Path | None, kubeconfig: Path | None) -> tuple[Callable[[], Source], str]:
    """How to make the source of facts, and its name for people."""
    if state is not None:
        return lambda: _manifest_source(state), f"state {state}"
    if kubeconfig is None and not os.environ.get("KUBERNETES_SERVICE_HOST"):
        kubeconfig = _default_kubeconfig()
        if kubeconfig is None:
            raise _Failure(
                "no cluster to take facts from: give --state DIR (manifests) or --kubeconfig FILE, or run in a cluster"
            )
    return lambda: _cluster_source(kubeconfig), f"kubeconfig {kubeconfig}" if kubeconfig else "in-cluster"


def _default_kubeconfig() -> Path | None:
    """kubectl's: the first file of $KUBECONFIG that exists, or ~/.kube/config."""
    listed = os.environ.get("KUBECONFIG", "")
    paths = [Path(entry) for entry in listed.split(os.pathsep) if entry] or [Path.home() / ".kube" / "config"]
    return next((path for path in paths if path.is_file()), None)


def _manifest_source(directory: Path) -> Source:
    from webhook.sources.manifests import ManifestSource

    return ManifestSource(directory)


def _cluster_source(kubeconfig: Path | None) -> Source:
    from webhook.sources.cluster import ClusterSource

    return ClusterSource(kubeconfig)


@policy.command("schema")
def policy_schema() -> None:
    """Print the JSON schema of the policy file."""
    from webhook.policy import policy_schema as schema

    print(json.dumps(schema(), indent=2))
