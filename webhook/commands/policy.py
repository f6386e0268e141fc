"""`floorkeeper policy check` and `policy schema`."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from webhook.commands.failure import USAGE


def policy_check(file: Annotated[Path, typer.Argument(metavar="FILE", help="Policy file.")]) -> None:
    """Say what is wrong with a policy file, or has no effect."""
    from webhook.policy import PolicyError, PolicyFile

    read = PolicyFile(file)
    try:
        read.load()
    except PolicyError as error:
        # As they are, for editors and CI: FILE:LINE: in every line.
        print(error, file=sys.stderr)
        raise typer.Exit(USAGE) from None
    print(f"{file}: fine", *read.notes(datetime.now(UTC).date()), sep="\n")


def policy_schema() -> None:
    """Print the JSON schema of the policy file."""
    from webhook.policy import policy_schema as schema

    print(json.dumps(schema(), indent=2))
