"""The types of the policy's values: what is accepted, in YAML and in the published schema.

A validator's ValueError is 'what is wrong; what to do'; `webhook.policy.explain` adds where.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, WithJsonSchema

from webhook.engine.policy import Mode
from webhook.kube import quantity
from webhook.policy import syntax
from webhook.policy.document import Plain

LARGEST = 2**31 - 1  # Kubernetes keeps such counts in 32 bits


def shown(value: Any) -> str:
    """A value of the file, in a message."""
    match value:
        case None:
            return "empty"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case Plain(text):
            return syntax.shown(text)[1:-1]
        case str():
            return syntax.shown(value)
        case _:
            return str(value)


def _max_unavailable(value: Any) -> int | str:
    if isinstance(value, int):
        if 1 <= value <= LARGEST:
            return value
    elif isinstance(value, str) and re.fullmatch(syntax.PERCENTAGE, value):
        return value
    if value in (0, "0", "0%"):
        raise ValueError(
            f"must not be {shown(value)}, since with maxSurge 0 no pod could ever be replaced; "
            "write 1 or more, or 1% to 100%"
        )
    raise ValueError(f"must be a number of pods or a percentage, is {shown(value)}; write for example 1 or 25%")


def _units(value: Any) -> int:
    advice = "write a whole number of units, such as 16"
    if isinstance(value, str | int):
        try:
            amount = quantity.parse(value)
        except quantity.QuantityError as error:
            raise ValueError(f"{error}; {advice}") from error
        if amount >= 0 and quantity.whole(amount):
            return amount
    raise ValueError(f"must be whole units, 0 or more, is {shown(value)}; {advice}")


def _mode(value: Any) -> Any:
    # YAML 1.1 reads a bare off as a boolean; false and no mean something else to whoever wrote them.
    return "off" if isinstance(value, Plain) and value.text.lower() == "off" else value


def _switch(value: Any) -> bool:
    if isinstance(value, Plain) and value.text.lower() in ("true", "false"):
        return value.text.lower() == "true"
    raise ValueError(f"must be true or false, is {shown(value)}; write one of these, without quotes")


def _last_day(value: Any) -> date:
    if isinstance(value, str) and re.fullmatch(syntax.DATE, value, re.ASCII):
        try:
            return date.fromisoformat(value)
        except ValueError:
            pass
    raise ValueError(f"must be a date, is {shown(value)}; write year-month-day, such as 2027-01-31")


def _reason(text: str) -> str:
    # It ends up in audit annotations and log lines.
    line = " ".join(text.split())
    if not line:
        raise ValueError("must not be blank; say why the exemption exists")
    return line


def _not_empty(values: list[str]) -> list[str]:
    if not values:
        raise ValueError("must not be an empty list, which would match everybody; leave the key out, or fill it")
    return values


def not_empty_list(values: list[str]) -> list[str]:
    if not values:
        raise ValueError("must not be an empty list; fill it")
    return values


def publish_no_default(schema: dict[str, Any]) -> None:
    """Of a key that is left out by default, and whose default nobody may write."""
    schema.pop("default", None)


def _published_not_empty(schema: dict[str, Any]) -> None:
    publish_no_default(schema)
    schema["minItems"] = 1


EmptyList = BeforeValidator(lambda value: [] if value is None else value)
EmptyMapping = BeforeValidator(lambda value: {} if value is None else value)

Subdomain = Annotated[str, AfterValidator(syntax.subdomain)]
QueueName = Annotated[str, AfterValidator(syntax.queue_name), WithJsonSchema({"type": "string", "maxLength": 63})]
LabelKey = Annotated[str, AfterValidator(syntax.label_key)]
LabelValue = Annotated[str, AfterValidator(syntax.label_value)]
TaintKey = Annotated[str, AfterValidator(syntax.taint_key)]
Resource = Annotated[str, AfterValidator(syntax.resource)]
ResourcePattern = Annotated[str, AfterValidator(syntax.resource_pattern)]
ClassPattern = Annotated[str, AfterValidator(syntax.class_pattern)]
KindName = Annotated[str, AfterValidator(syntax.kind)]
Plural = Annotated[str, AfterValidator(syntax.plural)]
Version = Annotated[str, AfterValidator(syntax.version)]
FieldPath = Annotated[str, AfterValidator(syntax.field_path)]
TemplatePath = Annotated[str, AfterValidator(syntax.template_path)]
LabelPlace = Annotated[str, AfterValidator(syntax.label_place)]
NamespacePattern = Annotated[str, AfterValidator(syntax.namespace_pattern)]
WorkloadPattern = Annotated[str, AfterValidator(syntax.workload_pattern)]
SubjectNames = Annotated[
    list[Annotated[str, AfterValidator(syntax.subject_name)]],
    AfterValidator(_not_empty),
    Field(json_schema_extra=_published_not_empty),
]
Reason = Annotated[str, AfterValidator(_reason), WithJsonSchema({"type": "string", "minLength": 1})]
Units = Annotated[int, PlainValidator(_units), WithJsonSchema({"type": ["integer", "string"], "minimum": 0})]
Switch = Annotated[bool, PlainValidator(_switch), WithJsonSchema({"type": "boolean"})]
RuleMode = Annotated[Mode, BeforeValidator(_mode)]
Until = Annotated[
    date | None,
    PlainValidator(_last_day),
    WithJsonSchema({"type": "string", "format": "date"}),
    Field(json_schema_extra=publish_no_default),
]
MaxUnavailable = Annotated[
    int | str,
    PlainValidator(_max_unavailable),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": LARGEST},
                {"type": "string", "pattern": f"^{syntax.PERCENTAGE}$"},
            ]
        }
    ),
]
