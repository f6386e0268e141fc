"""The commands that typer reads. Doors are imported by the commands that need them, for each costs most of a second."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any, Literal

import typer

from webhook import __version__
from webhook.commands.pages import explain, rules
from webhook.commands.policy import policy_check, policy_schema
from webhook.commands.render import render
from webhook.commands.serve import serve

_NAME = "floorkeeper"
_LIVE = ("audit", "plan", "adopt", "verify", "release")
"""Commands about a running cluster. What they may be given is in their modules, which take half a second to import."""

_WITHOUT_LIVE = ("serve", "render", "policy", "explain", "rules", "--version")
"""First words by which none of these can be meant."""

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

cli.command()(serve)
policy.command("check")(policy_check)
policy.command("schema")(policy_schema)


def run(words: Sequence[str]) -> int:
    """Runs the command that the words name, and returns its exit code. Every error is one message on stderr."""
    words = words or ["--help"]
    if words[0] not in _WITHOUT_LIVE:
        add_live([words[0]] if words[0] in _LIVE else _LIVE)
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


def add_live(names: Sequence[str] = _LIVE) -> None:
    """Adds commands about a running cluster that are not there yet."""
    for name in names:
        if name not in [each.name for each in cli.registered_commands]:
            cli.command(name)(getattr(import_module(f"webhook.live.{name}.command"), name))


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


@cli.command("check", context_settings={"ignore_unknown_options": True}, add_help_option=False)
def _check(words: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Judge manifests as the cluster would, before it gets them."""
    # Listed here for --help alone: webhook.cli hands the command over before anything of this is imported.
    from webhook.check.command import run as run_check

    raise typer.Exit(run_check(words or ()))


for each in (render, explain, rules):
    cli.command()(each)


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
