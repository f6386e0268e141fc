"""New values for the fields of an object, as changes of the text that it was read from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import Enum
from typing import Any

import yaml

from webhook.check.layout import Layout, Splice
from webhook.check.spelling import Style, block_lines, flow_pairs, flow_text, scalar_text
from webhook.sources.nodes import child
from webhook.sources.scalars import STRING

_FOLDED = ("|", ">")


class Aliases(Enum):
    """What is done about a value that an alias stands for, and about text that aliases stand for elsewhere."""

    AT_ANCHOR = 1
    """It is changed where it was written, for all."""

    IN_PLACE = 2
    """The alias gives way to what it stands for, changed."""

    APART = 3
    """The same, and text that others use stays as it is."""


class Unwritable(Exception):
    """A change that cannot be written into the text. The message says why, and fits behind 'is not fixed: '."""


class Rewrite:
    """Changes of one text. They are worked out, not proven: who applies them reads the text again."""

    def __init__(self, text: str) -> None:
        self._layout = Layout(text)
        self._splices: list[Splice] = []
        self._aliases = Aliases.AT_ANCHOR
        self._used = {token.value for token in self._layout.tokens if isinstance(token, yaml.AliasToken)}

    def splices(self, root: yaml.Node, old: Any, new: Any, aliases: Aliases) -> list[Splice]:
        """What makes the node `root` of this text, which reads as `old`, read as `new`. Raises Unwritable.

        What a merge key brings in is never touched: the new value is written beside it.
        """
        self._splices, self._aliases = [], aliases
        self._content(root, old, new, self._layout.first_at(root.start_mark.index), Style())
        return self._splices

    def _put(self, start: int, end: int, text: str) -> None:
        self._splices.append(Splice(start, end, text))

    # Down to what changes. `first` is the number of the token that a value begins with.

    def _value(self, node: yaml.Node, old: Any, new: Any, first: int, style: Style) -> None:
        alias = self._layout.tokens[first] if first < len(self._layout.tokens) else None
        if not isinstance(alias, yaml.AliasToken) or node.start_mark.index == self._layout.end(first - 1):
            self._content(node, old, new, first, style)
        elif self._aliases is Aliases.AT_ANCHOR:
            self._content(node, old, new, self._layout.first_at(node.start_mark.index), Style())
        else:
            text = flow_text(new)
            if _extends(old, new):
                changed = {key: value for key, value in new.items() if key not in old or not same(old[key], value)}
                text = f"{{<<: *{alias.value}, {flow_pairs(changed)}}}"
            self._put(alias.start_mark.index, alias.end_mark.index, text)

    def _content(self, node: yaml.Node, old: Any, new: Any, first: int, style: Style) -> None:
        anchor = self._layout.anchor(first)
        if self._aliases is Aliases.APART and anchor in self._used:
            raise Unwritable(f"others use the same text, by the anchor &{anchor}")
        if isinstance(node, yaml.MappingNode) and _extends(old, new):
            self._mapping(node, old, new, self._layout.past_properties(first), style)
        elif isinstance(node, yaml.SequenceNode) and isinstance(new, list) and len(old) == len(new):
            for item, number, before, after in zip(node.value, self._items(node), old, new, strict=True):
                if not same(before, after):
                    self._value(item, before, after, number, replace(style, column=None))
        elif isinstance(node, yaml.ScalarNode):
            self._scalar(node, new, first, style)
        elif isinstance(node, yaml.CollectionNode) and node.flow_style:
            start = self._layout.tokens[self._layout.past_properties(first)].start_mark.index
            self._put(
                start, node.end_mark.index, style.text(new, self._layout.indent(start), self._layout.line_break(start))
            )
        else:
            raise Unwritable("a block would have to be replaced whole")

    def _mapping(self, node: yaml.MappingNode, old: Any, new: Any, first: int, style: Style) -> None:
        flow = self._layout.is_a(first, yaml.FlowMappingStartToken)
        if node.flow_style and not flow:
            raise Unwritable("a mapping in brackets has no braces of its own")
        style = self._flow_style(node, style) if flow else self._block_style(node, style)
        added = {}
        for field, value in new.items():
            if field in old and same(old[field], value):
                continue
            found = child(node, field)
            if found is not None and any(found[0] is own for own, _ in node.value):
                self._value(found[1], old[field], value, self._colon(found[0]) + 1, style)
            elif any(own.value == field for own, _ in node.value):
                raise Unwritable("a merge key (<<) overrides the key above it")
            else:
                added[field] = value
        if added and flow:
            self._add_to_flow(node, added, first, style)
        elif added:
            self._add_to_block(node, added, style)

    def _items(self, node: yaml.SequenceNode) -> Iterator[int]:
        """The number of the token that each item begins with."""
        layout = self._layout
        position = node.start_mark.index
        for item in node.value:
            number = layout.first_at(max(item.start_mark.index, position))
            if item.start_mark.index < position:
                # What an alias stands for was written further up.
                while not layout.is_a(number, yaml.AliasToken):
                    number += 1
                position = layout.end(number)
            else:
                position = item.end_mark.index
            yield number

    def _colon(self, key: yaml.Node) -> int:
        colon = self._layout.first_at(key.end_mark.index)
        if not self._layout.is_a(colon, yaml.ValueToken):
            raise Unwritable("a key has no colon")
        return colon

    # Scalars

    def _scalar(self, node: yaml.ScalarNode, new: Any, first: int, style: Style) -> None:
        layout = self._layout
        if node.style in _FOLDED:
            raise Unwritable("a block of text would have to be replaced")
        # Behind an empty value, anchors and tags are the next key's.
        number = layout.past_properties(first) if layout.start(first) < node.end_mark.index else first
        before = layout.end(number - 1)
        empty = layout.start(number) >= node.end_mark.index
        start, end = (before, before) if empty else (layout.start(number), layout.end(number))
        keeps_tag = isinstance(new, str) and node.tag == STRING
        tags = [] if keeps_tag else [at for at in range(first, number) if layout.is_a(at, yaml.TagToken)]
        for tag in tags:
            self._put(layout.start(tag), min(layout.start(tag + 1), max(start, layout.end(tag))), "")
        if isinstance(new, dict) and new and style.column is not None and layout.line(before) == layout.line(start):
            self._put(start if tags else before, end, "")
            indent = " " * style.column + style.step
            self._put_lines(layout.line_end(end), [indent + line for line in block_lines(new, style.step)])
            return
        text = style.text(new, layout.indent(start), layout.line_break(start))
        if isinstance(new, str) and not style.json:
            text = scalar_text(new, "" if empty else node.style)
        self._put(start, end, f" {text}" if empty else text)

    # Keys that are not there yet

    def _add_to_block(self, node: yaml.MappingNode, added: Mapping[str, Any], style: Style) -> None:
        """Behind the last key whose value is on its line, or else the last whose value does not end as a block of text.

        There, a line more might change the text's end. A key that overrides a merge key has to be behind it.
        """
        layout = self._layout
        keys = [key for key, _ in node.value]
        ends = [layout.last_before(key.start_mark.index) for key in keys[1:]]
        ends = [end - 1 if layout.is_a(end, yaml.KeyToken) else end for end in ends]
        ends.append(layout.last_before(node.end_mark.index))
        merge = max((index for index, key in enumerate(keys) if key.value == "<<" and not key.style), default=0)
        candidates = [
            (layout.line(key.start_mark.index) == layout.line(layout.end(end)), end)
            for key, end in list(zip(keys, ends, strict=True))[merge:]
            if getattr(layout.tokens[end], "style", None) not in _FOLDED
        ]
        lines = block_lines(added, style.step)
        indent = " " * (style.column or 0)
        if candidates:
            position = layout.past_comments(layout.end(max(candidates)[1]), len(indent))
            self._put_lines(position, [indent + line for line in lines])
        else:
            first = self._key_start(keys[0])
            position = layout.comments_above(first)
            line_break = layout.line_break(position)
            # At a list's dash, the first key's indentation is there already.
            before, after = ("", indent) if position == first else (indent, "")
            self._put(position, position, "".join(f"{before}{line}{line_break}{after}" for line in lines))

    def _put_lines(self, position: int, lines: list[str]) -> None:
        """Lines of their own behind the one that ends at `position`."""
        line_break = self._layout.line_break(position)
        self._put(position, position, "".join(line_break + line for line in lines))

    def _add_to_flow(self, node: yaml.MappingNode, added: Mapping[str, Any], first: int, style: Style) -> None:
        layout = self._layout
        close = node.end_mark.index - 1
        if not node.value:
            self._fill(added, layout.end(first), close, style)
            return
        key = node.value[-1][0]
        last = layout.last_before(close)
        end = layout.end(last)
        is_open = layout.is_a(last, yaml.FlowEntryToken)
        # Behind a bare colon, a comma alone would be taken for text.
        comma = "" if is_open else " ," if layout.is_a(last, yaml.ValueToken) else ","
        if not style.spread:
            self._put(end, end, comma + ("" if style.tight else " ") + style.pairs(added))
            return
        line_break = layout.line_break(end)
        indent = layout.before_on_line(key.start_mark.index)
        pairs = line_break + indent + style.pairs(added, indent, line_break)
        if layout.line(close) == layout.line(end):
            self._put(end, end, comma + pairs)
        else:
            # A comment may stand behind the last pair, and stays there.
            self._put(end, end, comma)
            self._put(layout.line_end(end), layout.line_end(end), pairs + ("," if is_open else ""))

    def _fill(self, added: Mapping[str, Any], start: int, close: int, style: Style) -> None:
        """Puts the first keys between two braces."""
        inner = self._layout.text[start:close]
        if style.spread and not inner.strip():
            whole = style.text(added, self._layout.indent(start), self._layout.line_break(start))
            self._put(start, close, whole[1:-1])
        else:
            self._put(close, close, style.pairs(added) + ("" if inner.strip(" ") else inner))

    # Style

    def _block_style(self, node: yaml.MappingNode, style: Style) -> Style:
        column = self._layout.column(self._key_start(node.value[0][0]))
        for key, value in node.value:
            if (
                isinstance(value, yaml.MappingNode)
                and not value.flow_style
                and value.start_mark.index > key.end_mark.index
            ):
                deeper = self._layout.column(self._key_start(value.value[0][0]))
                if deeper > column:
                    return replace(style, column=column, step=" " * (deeper - column))
        return replace(style, column=column)

    def _flow_style(self, node: yaml.MappingNode, style: Style) -> Style:
        if not node.value:
            return replace(style, column=None)
        layout = self._layout
        key, close = node.value[-1][0], node.end_mark.index - 1
        indent, outer = layout.before_on_line(key.start_mark.index), layout.indent(close)
        spread = not indent.strip(" \t")
        step = indent[len(outer) :] if spread and indent.startswith(outer) and len(indent) > len(outer) else style.step
        quoted = key.style == '"'
        colon = layout.first_at(key.end_mark.index)
        tight = quoted and layout.is_a(colon, yaml.ValueToken) and self._layout.start(colon + 1) == layout.end(colon)
        return Style(None, step, quoted, spread, tight)

    def _key_start(self, key: yaml.Node) -> int:
        """Where a key begins, its question mark included if it has one."""
        before = self._layout.last_before(key.start_mark.index)
        explicit = before >= 0 and self._layout.is_a(before, yaml.KeyToken)
        return int(self._layout.start(before) if explicit else key.start_mark.index)


def _extends(old: Any, new: Any) -> bool:
    """Whether both are mappings, and no key of the old one is gone."""
    return isinstance(old, dict) and isinstance(new, dict) and old.keys() <= new.keys()


def same(one: Any, other: Any) -> bool:
    """Equal as JSON: 1 and true are two values, and the order of keys says nothing."""
    return one is other or (one == other and json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True))
