"""Text that strangers had a hand in, made fit to print.

Names and values in a review can hold anything and be megabytes long. The API server drops a warning that holds a
control character, and cuts long ones off at the end, where the rule id is.
"""

from __future__ import annotations

import re

_LONGEST_RULE_ID = 64  # characters, with its brackets
_REMEDY = re.compile(r"; (?:fix|patched|would be patched|not denied): ")


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
    """At most `limit` characters. What goes is taken from where a reader misses it least.

    A trailing ' [rule-id]' stays, and what there is to do stays if it fits: then what goes is the middle of what comes
    before, whose end often is a sum.
    """
    if len(text) <= limit:
        return text
    rule = ""
    if text.endswith("]"):
        start = text.rfind(" [", len(text) - _LONGEST_RULE_ID)
        rule = text[start:] if start >= 0 else ""
    remedy = _REMEDY.search(text)
    if remedy is not None:
        told, advice = text[: remedy.start()], text[remedy.start() : len(text) - len(rule)]
        room = limit - len(rule) - 1
        kept = min(len(told), max(room - len(advice), room // 2))
        if len(advice) > room - kept:
            advice = f"{advice[: room - kept - 1]}…"
        if kept < len(told):
            end = kept // 3
            told = f"{told[: kept - end]}…{told[len(told) - end :]}"
        return f"{told}{advice}{rule}"
    return f"{text[: limit - len(rule) - 1]}…{rule}"
