"""`floorkeeper explain` and `rules`: what is published about them."""

from __future__ import annotations

from shutil import get_terminal_size
from typing import Annotated, Literal

import typer

from webhook.commands.failure import Failure


def explain(
    rule: Annotated[str, typer.Argument(metavar="RULE", help="The id of a rule, as messages end with it.")],
) -> None:
    """Print a rule's page: what must hold, why, and what is patched."""
    from webhook.check.pages import UnknownRule, page

    try:
        print(page(rule, get_terminal_size().columns))
    except UnknownRule as error:
        raise Failure(str(error)) from None


def rules(
    output: Annotated[
        Literal["table", "markdown", "json"], typer.Option("--output", "-o", help="How to print them.")
    ] = "table",
) -> None:
    """List the rules; as markdown or json, with their pages."""
    from webhook.check.pages import rule_list

    print(rule_list(output))
