"""What a Result looks like to each of its readers: people, programs and CI systems. Pure.

Each module has a function `render`, whose text ends with a line break and can be written as UTF-8 whatever the input
held. Only the module of the format that is asked for is imported: some cost more than a whole check.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from webhook.check.result import Result

FORMATS = ("text", "json", "sarif", "junit", "github", "gitlab")


def render(
    name: str,
    result: Result,
    texts: Mapping[str, bytes],
    *,
    colour: bool = False,
    fail_on: Collection[str] = (),
    root: str = "",
) -> str:
    """The result in one of FORMATS.

    `texts` are the files as they were read, for the lines that text shows. `root` is the absolute folder that CI
    systems know files relative to, '' to leave the names as they are. `fail_on` is a part of result.FAIL_ON.
    """
    match name:
        case "text":
            from webhook.check.formats import text

            return text.render(result, texts, colour=colour)
        case "json":
            from webhook.check.formats import json_report

            return json_report.render(result)
        case "sarif":
            from webhook.check.formats import sarif

            return sarif.render(result, root=root)
        case "junit":
            from webhook.check.formats import junit

            return junit.render(result, fail_on=fail_on, root=root)
        case "github":
            from webhook.check.formats import github

            return github.render(result, root=root)
        case "gitlab":
            from webhook.check.formats import gitlab

            return gitlab.render(result, root=root)
    raise ValueError(f"no format {name}")
