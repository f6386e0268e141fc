"""What a run found: figures for JSON, and the issue's goals, met or not."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.figures import machine, show_table
from benchmarks.speed.options import Options
from benchmarks.speed.series import Goal


@dataclass
class Report:
    options: Options
    machine: str = field(default_factory=machine)
    began: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    sections: dict[str, dict[str, Any]] = field(default_factory=dict)
    goals: list[Goal] = field(default_factory=list)

    def add(self, section: str, found: dict[str, Any]) -> None:
        self.sections.setdefault(section, {}).update(found)

    def judge(self, goal: Goal) -> None:
        self.goals.append(goal)

    def show_goals(self) -> None:
        print()
        show_table(("goal", "found", "wanted", ""), [goal.row for goal in self.goals])

    def write(self, path: Path) -> None:
        goals = [asdict(goal) | {"met": goal.met} for goal in self.goals]
        value = {
            "machine": self.machine,
            "began": self.began,
            "ended": datetime.now(UTC).isoformat(timespec="seconds"),
            "endedOn": machine(),
            "options": asdict(self.options),
            **self.sections,
            "goals": goals,
        }
        path.write_text(json.dumps(value, indent=2) + "\n")
