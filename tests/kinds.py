"""A realistic manifest for each row of the kinds table: those of tests/fixtures/kinds."""

from __future__ import annotations

from functools import cache
from typing import Any

from tests.cases import (
    FIXTURES,
    Object,
    policy_of,
    read_documents,
    subject_of,
)
from webhook.engine.patch import Edit, edited
from webhook.kube.kinds import Kind
from webhook.kube.objects import group
from webhook.kube.row import Place

QUEUE = "model-a-lq"
POLICY = policy_of()


_VENDORS = {"batch.volcano.sh": "volcano-", "serving.knative.dev": "knative-"}
"""What tells two Jobs and two Services apart."""


def short(row: Kind) -> str:
    return _VENDORS.get(row.group, "") + row.kind.lower()


def version(row: Kind) -> str:
    return f"{row.group}/{row.versions[0]}" if row.group else row.versions[0]


@cache
def manifest(row: Kind) -> Object:
    """The realistic one without a label; nobody changes it."""
    value = read_documents(FIXTURES / "kinds" / short(row) / "fail-missing-queue-name.yaml")[-1]
    assert (group(value["apiVersion"]), value["kind"]) == (row.group, row.kind)
    return value


@cache
def mended(row: Kind) -> Object:
    """The same with the label in its place; {} for a kind that gets none."""
    path = FIXTURES / "kinds" / short(row) / "fixed-missing-queue-name.yaml"
    return read_documents(path)[-1] if path.exists() else {}


def labelled(row: Kind) -> Any:
    subject = subject_of(manifest(row), POLICY)
    paths = [template.label_path for template in subject.templates if template.asks]
    if row.label is not Place.TEMPLATES:
        paths = [subject.label_path] if subject.label_path else []
    return edited(manifest(row), [Edit(path, QUEUE) for path in paths])
