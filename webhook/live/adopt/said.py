"""What is to be said of a Deployment, or of its namespace, before anything is written."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Said:
    """`problems` keep a Deployment from being adopted, each with what to do; `remarks` do not. `unknown` could not be
    looked at."""

    problems: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
