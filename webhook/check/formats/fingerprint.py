"""Fingerprints, by which code scanning knows a finding of one run again in the next. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import sha256

from webhook.check.formats.identity import relative
from webhook.check.result import Found


def finding_key(found: Found, root: str) -> tuple[str, ...]:
    """What stays the same of a finding while lines move and amounts change."""
    group = found.api_version.rpartition("/")[0]
    return (relative(found.place.file, root), found.rule, group, found.kind, found.namespace, found.name, found.path)


def fingerprints(keys: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """A fingerprint for each key. Equal keys get several, numbered in their order: no reader keeps two of the same."""
    seen: Counter[tuple[str, ...]] = Counter()
    for key in keys:
        seen[key] += 1
        text = "\0".join((*key, str(seen[key])))
        yield sha256(text.encode(errors="surrogatepass")).hexdigest()
