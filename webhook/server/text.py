"""Text that strangers had a hand in, made fit to print.

Names and values in a review can hold anything and be megabytes long. The API server drops a warning that holds a
control character, and cuts long ones off at the end, where the rule id is.
"""

from __future__ import annotations

_LONGEST_RULE_ID = 64  # characters, with its brackets


def printable(text: str, limit: int) -> str:
    """The text as one line of at most `limit` characters, without control or format characters or lone surrogates."""
    text = cut(text, limit)
    if text.isprintable():
        return text
    return cut("".join(map(_shown, text)), limit)


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    return " " if character.isspace() else character.encode("unicode_escape").decode()


def cut(text: str, limit: int) -> str:
    """At most `limit` characters. What goes is taken from before a trailing ' [rule-id]', which stays."""
    if len(text) <= limit:
        return text
    end = ""
    if text.endswith("]"):
        start = text.rfind(" [", len(text) - _LONGEST_RULE_ID)
        end = text[start:] if start >= 0 else ""
    return f"{text[: limit - len(end) - 1]}…{end}"
