"""Reading a policy: from a file or a text to the frozen Policy of the core."""

from __future__ import annotations

import stat
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from webhook.engine.policy import Policy
from webhook.policy import model
from webhook.policy.document import LONGEST, parse_document, plain, too_large
from webhook.policy.explain import explain
from webhook.policy.problem import PolicyError, Problem


def read_policy(path: Path) -> Policy:
    """The policy in a file of at most 1 MiB. Raises PolicyError, also when the file cannot be read."""
    return parse_policy(read_text(path), str(path))


def read_text(path: Path) -> str:
    """What is in a file of at most 1 MiB. Raises PolicyError where it cannot be read."""
    name = str(path)
    try:
        # Opening a pipe would wait for its writer, and the server's one thread with it.
        if not stat.S_ISREG(path.stat().st_mode):
            raise PolicyError(name, [Problem(1, "file", "is not a regular file; give the path of a YAML file")])
        with path.open("rb") as file:
            content = file.read(LONGEST + 1)
    except OSError as error:
        what = f"cannot be read ({error.strerror}); check the path and its permissions"
        raise PolicyError(name, [Problem(1, "file", what)]) from error
    if len(content) > LONGEST:
        raise PolicyError(name, [too_large()])
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise PolicyError(name, [Problem(line, "file", "is not UTF-8; save it as UTF-8")]) from error


def parse_policy(text: str, name: str) -> Policy:
    """The policy that a YAML text describes. Raises PolicyError with every problem; `name` is the file in its lines."""
    root, problems = parse_document(text)
    if root is None:
        raise PolicyError(name, problems)
    try:
        written = model.Policy.model_validate(plain(root.value))
    except ValidationError as error:
        problems += explain(error.errors(include_url=False), root, _schema())
        raise PolicyError(name, problems) from None
    if problems:
        raise PolicyError(name, problems)
    return written.as_core()


def policy_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a policy file, for editors and CI."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_schema()}


@cache
def _schema() -> dict[str, Any]:
    return model.Policy.model_json_schema()
