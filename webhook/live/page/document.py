"""The page as one HTML document with everything in it, and the policy by which a browser runs nothing else."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_FILES = ("page.html", "page.css", "elements.js", "charts.js", "sections.js", "page.js")
_STYLE, _SCRIPT = "/* style */", "/* script */"
"""What stands in page.html for the contents of the other files."""


@dataclass(frozen=True, slots=True)
class Document:
    """`policy` is the Content-Security-Policy, `tag` stands for the content."""

    html: bytes
    policy: str
    tag: str


@cache
def document() -> Document:
    """The page, put together from the files beside this one."""
    folder = files(__package__)
    html, style, *scripts = (folder.joinpath(name).read_text(encoding="utf-8") for name in _FILES)
    script = "\n".join(scripts)
    html = html.replace(_STYLE, style).replace(_SCRIPT, script)
    policy = {
        "default-src": "'none'",
        "script-src": _hash(script),
        "style-src": _hash(style),
        "connect-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    text = "; ".join(f"{name} {value}" for name, value in policy.items())
    return Document(html.encode(), text, hashlib.blake2b(html.encode(), digest_size=12).hexdigest())


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
