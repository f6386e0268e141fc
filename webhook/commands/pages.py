"""`floorkeeper explain` and `rules`: what is published about rules and checks."""

from __future__ import annotations

from shutil import get_terminal_size
from typing import Annotated, Literal

import typer

from webhook.commands.failure import Failure


def explain(
    rule: Annotated[
        str,
        typer.Argument(
            metavar="RULE", help="The id that messages end with, such as missing-queue-name or setup/ca-bundle."
        ),
    ],
) -> None:
    """Print the page of a rule, or of a check of the set-up.

    What must hold, why, and what is patched. floorkeeper rules lists them.
    """
    from webhook.check.pages import UnknownRule, page, rule_pages

    pages = rule_pages()
    if rule.strip("[]") not in {each.id for each in pages}:
        # It takes as long to import as all else here.
        from webhook.live.audit.pages import setup_pages

        pages += setup_pages()
    try:
        print(page(rule, pages).fitted(get_terminal_size().columns))
    except UnknownRule as error:
        raise Failure(str(error)) from None


def rules(
    output: Annotated[
        Literal["table", "markdown", "json"], typer.Option("--output", "-o", help="How to print them.")
    ] = "table",
) -> None:
    """List the rules, and an audit's checks of the set-up.

    As markdown or json, with their pages.
    """
    from webhook.live.audit.pages import listed

    print(listed(output))
