"""Sections of a policy: what their models have in common."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic.alias_generators import to_camel

from webhook.kube.objects import Path


class Wrong(ValueError):
    """What a model finds wrong once its parts are right: problems by path below the model."""

    def __init__(self, *problems: tuple[Path, str]) -> None:
        super().__init__("; ".join(text for _, text in problems))
        self.problems = problems


class Model(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        alias_generator=to_camel,
        field_title_generator=lambda name, _: to_camel(name),
    )


class Section(Model):
    """A mapping whose keys are all optional: blank, it is as good as absent."""

    @model_validator(mode="before")
    @classmethod
    def _blank(cls, value: Any) -> Any:
        return {} if value is None else value
