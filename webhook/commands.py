"""The commands that typer reads. Doors are imported by the commands that need them, for each costs most of a second."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from webhook import __version__
from webhook.sources.kubeconfig_path import default_kubeconfig

if TYPE_CHECKING:
    from webhook.server.certificates import CertificateSource
    from webhook.sources.source import Source

_NAME = "floorkeeper"
_USAGE = 2  # exit code: what the command line says cannot be done
_LAST_PORT = 65535
_LONGEST_NAME = 253
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)

cli = typer.Typer(
    name=_NAME,
    help="Keeps the invariants that make Kueue-based replica rebalancing safe.",
    # Of every command below as well.
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
policy = typer.Typer(help="Check a policy, or print its schema.", rich_markup_mode=None)
cli.add_typer(policy, name="policy")


class _Failure(typer.TyperException):
    """One clear sentence on stderr, and an exit code. `is_usage`: the command line itself is wrong."""

    def __init__(self, message: str, code: int = _USAGE, *, is_usage: bool = False) -> None:
        super().__init__(message)
        self.exit_code = code
        self.is_usage = is_usage


def run(words: Sequence[str]) -> int:
    """Runs the command that the words name, and returns its exit code. Every error is one message on stderr."""
    words = words or ["--help"]
    try:
        code = cli(list(words), prog_name=_NAME, standalone_mode=False)
    except typer.TyperException as error:
        message = error.format_message().rstrip(".")
        if getattr(error, "is_usage", True):
            message += f"; try: {_named_command(words)} --help"
        print(f"floorkeeper: {message}", file=sys.stderr)
        code = error.exit_code
    except typer.Abort:
        code = 130
    return int(code or 0)


def _named_command(words: Sequence[str]) -> str:
    """The command that a command line names, as far as there is one. Not every error of typer knows it."""
    path: list[str] = []
    below: Mapping[str, Any] = {_NAME: typer.main.get_command(cli)}
    for word in (_NAME, *words):
        if word not in below:
            break
        path.append(word)
        below = getattr(below[word], "commands", {})
    return " ".join(path)


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


@policy.callback(invoke_without_command=True)
def _policy(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


def _port(value: str | int) -> int:
    text = str(value)  # the default comes here as the number that it is
    if not text.isascii() or not text.isdigit() or len(text) > len(str(_LAST_PORT)) or int(text) > _LAST_PORT:
        raise typer.BadParameter(f"must be a whole number from 0 to {_LAST_PORT}, is {text}")
    return int(text)


def _secret_name(value: str) -> str:
    if len(value) > _LONGEST_NAME or not _OBJECT_NAME.fullmatch(value):
        raise typer.BadParameter(f"must be the name of a Secret, is {value!r}; try floorkeeper-tls")
    return value


@cli.command()
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
        raise _Failure("give --state or --kubeconfig, not both: facts come from one place", is_usage=True)
    if (tls_cert is None) != (tls_key is None):
        what = "--tls-cert and --tls-key belong together: give both, or neither for a self-signed pair"
        raise _Failure(what, is_usage=True)
    if tls_secret is not None and (tls_cert is not None or state is not None):
        what = "--state has no Secrets" if tls_cert is None else "the certificate is kept in one place"
        raise _Failure(f"give --tls-secret without --tls-cert, --tls-key and --state: {what}", is_usage=True)
    if client_name and client_ca is None:
        raise _Failure("--client-name needs --client-ca: names count only if a CA vouches for them", is_usage=True)
    source, name = _source(state, kubeconfig)
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
        managed=None if tls_secret is None else lambda: _managed_certificate(_cluster(kubeconfig), tls_secret),
        client_ca=client_ca,
        client_names=frozenset(client_name or ()),
        drain_seconds=drain_seconds,
    )
    try:
        serve_until_signal(settings)
    except CannotServe as error:
        raise _Failure(str(error), error.code) from None


@cli.command("check", context_settings={"ignore_unknown_options": True}, add_help_option=False)
def _check(words: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Judge manifests as the cluster would, before it gets them."""
    # Listed here for --help alone: webhook.cli hands the command over before anything of this is imported.
    from webhook.check.command import run as run_check

    raise typer.Exit(run_check(words or ()))


@cli.command()
def render(
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATH", help="Manifests: files, folders, kustomizations' folders, or - for stdin."),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Policy file; without it, that of PATH or the defaults."),
    ] = None,
    ca_file: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="Certificates that the API server is to trust the server by, in PEM."
        ),
    ] = None,
) -> None:
    """Print the webhook configurations that agree with a policy.

    Their selectors, kinds and accelerators are the policy's, and their caBundle is --ca-file. With PATH, the manifests
    there are printed with these configurations among them, and with the policy in the ConfigMap floorkeeper-policy.
    """
    from webhook.engine.policy import Policy
    from webhook.policy import PolicyError, parse_policy, read_policy
    from webhook.render import (
        CaError,
        ManifestError,
        other_namespaces,
        placeholders,
        policy_in,
        read_ca_bundle,
        render_manifests,
        render_webhooks,
    )

    try:
        wanted = Policy() if policy is None else read_policy(policy)
        ca_bundle = b"" if ca_file is None else read_ca_bundle(ca_file)
        if paths:
            objects = _read_objects(paths)
            text = policy_in(objects) if policy is None else policy.read_bytes().decode()
            if policy is None:
                wanted = parse_policy(text, "ConfigMap floorkeeper-policy, policy.yaml")
            print(render_manifests(objects, wanted, text, ca_bundle), end="")
            where = "ConfigMap floorkeeper-policy" if policy is None else str(policy)
            for note in (*placeholders(objects), *other_namespaces(objects, wanted, where)):
                print(f"floorkeeper: {note}", file=sys.stderr)
            return
    except (PolicyError, CaError, ManifestError) as error:
        raise _Failure(str(error)) from None
    print(render_webhooks(wanted, ca_bundle), end="")
    if not ca_bundle:
        print(
            "floorkeeper: no caBundle: the API server will refuse the server's certificate, and with it every write "
            "that should be judged; pass --ca-file",
            file=sys.stderr,
        )


def _read_objects(paths: Sequence[str]) -> list[Mapping[str, Any]]:
    """The objects at these paths, as `check` reads them. Raises _Failure unless all of them can be read."""
    from webhook.check.inputs import read_inputs

    inputs = read_inputs(paths, sys.stdin.buffer)
    if inputs.faults:
        places = [fault.place for fault in inputs.faults]
        shown = [":".join(str(part) for part in (place.file, place.line, place.column) if part) for place in places]
        raise _Failure("\n".join(f"{at}: {fault.message}" for at, fault in zip(shown, inputs.faults, strict=True)))
    return [document.value for document in inputs.documents]


def _source(state: Path | None, kubeconfig: Path | None) -> tuple[Callable[[frozenset[str]], Source], str]:
    """How to make the source of facts, given kinds that are needed beside those of the rules, and its name."""
    if state is not None:
        return lambda _: _manifest_source(state), f"state {state}"
    kubeconfig = _cluster(kubeconfig)
    return lambda more: _cluster_source(kubeconfig, more), f"kubeconfig {kubeconfig}" if kubeconfig else "in-cluster"


def _cluster(kubeconfig: Path | None) -> Path | None:
    """The kubeconfig to use, None for the cluster around us."""
    if kubeconfig is None and not os.environ.get("KUBERNETES_SERVICE_HOST"):
        kubeconfig = default_kubeconfig()
        if kubeconfig is None:
            raise _Failure(
                "no cluster to take facts from: give --state DIR (manifests) or --kubeconfig FILE, or run in a cluster",
                is_usage=True,
            )
    return kubeconfig


def _managed_certificate(kubeconfig: Path | None, secret: str) -> CertificateSource:
    from webhook.server.managed import ManagedCertificate

    return ManagedCertificate(kubeconfig, secret)


def _manifest_source(directory: Path) -> Source:
    from webhook.sources.manifests import ManifestSource

    return ManifestSource(directory)


def _cluster_source(kubeconfig: Path | None, more: frozenset[str]) -> Source:
    from webhook.rules import NEEDS
    from webhook.sources.cluster import ClusterSource

    return ClusterSource(kubeconfig, sorted(NEEDS | more))


@policy.command("check")
def policy_check(file: Annotated[Path, typer.Argument(metavar="FILE", help="Policy file.")]) -> None:
    """Say what is wrong with a policy file, or has no effect."""
    from webhook.policy import PolicyError, PolicyFile

    read = PolicyFile(file)
    try:
        read.load()
    except PolicyError as error:
        # As they are, for editors and CI: FILE:LINE: in every line.
        print(error, file=sys.stderr)
        raise typer.Exit(_USAGE) from None
    print(f"{file}: fine", *read.notes(datetime.now(UTC).date()), sep="\n")


@policy.command("schema")
def policy_schema() -> None:
    """Print the JSON schema of the policy file."""
    from webhook.policy import policy_schema as schema

    print(json.dumps(schema(), indent=2))


@cli.command()
def explain(
    rule: Annotated[str, typer.Argument(metavar="RULE", help="The id of a rule, as messages end with it.")],
) -> None:
    """Print a rule's page: what must hold, why, and what is patched."""
    from webhook.check.pages import UnknownRule, page

    try:
        print(page(rule, get_terminal_size().columns))
    except UnknownRule as error:
        raise _Failure(str(error)) from None


@cli.command()
def rules(
    output: Annotated[
        Literal["table", "markdown", "json"], typer.Option("--output", "-o", help="How to print them.")
    ] = "table",
) -> None:
    """List the rules; as markdown or json, with their pages."""
    from webhook.check.pages import rule_list

    print(rule_list(output))


@cli.command()
def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print a script that completes commands and options in a shell.

    In bash: source <(floorkeeper completion bash)
    """
    from webhook.check.command import flags
    from webhook.completion import script

    print(script(shell, {**_words(typer.main.get_command(cli)), "check": flags()}), end="")


def _words(command: Any, path: str = "") -> dict[str, list[str]]:
    """What may follow each command, by the names that lead to it, '' for none."""
    below: Mapping[str, Any] = getattr(command, "commands", {})
    options = [flag for parameter in command.params for flag in parameter.opts if flag.startswith("-")]
    words = {path: [*below, *options, "--help"]}
    for name, each in below.items():
        words |= _words(each, f"{path} {name}".strip())
    return words
