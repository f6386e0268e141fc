"""A row of the kinds table, as a policy writes it."""

from __future__ import annotations

from functools import cache
from typing import Annotated

from pydantic import AfterValidator, Field

from webhook.kube import row
from webhook.kube.objects import Path
from webhook.kube.paths import parse
from webhook.policy.fields import (
    FieldPath,
    KindName,
    LabelPlace,
    Plural,
    Subdomain,
    TemplatePath,
    Version,
    not_empty_list,
    publish_no_default,
)
from webhook.policy.section import Model


class Kind(Model):
    """A kind that makes pods and that Floorkeeper does not know of itself. It is judged as a Deployment is."""

    group: Subdomain = Field(description="The API group, without the version.")
    kind: KindName = Field(description="The kind's name, as in manifests.")
    plural: Plural = Field(
        default="",
        json_schema_extra=publish_no_default,
        description="The resource's plural name, as in URLs; the kind in lower case and an s without it.",
    )
    versions: Annotated[list[Version], AfterValidator(not_empty_list)] = Field(
        default=["*"], description="The API versions in which it is judged; * for all."
    )
    templates: Annotated[list[TemplatePath], AfterValidator(not_empty_list)] = Field(
        description="Where its pod templates are: spec.template, spec.groups[*].template for each entry of a list, "
        "spec.roles{*}.template for each value of a mapping.",
    )
    label: LabelPlace = Field(
        default="templates",
        description="Where the queue label goes: templates for each pod template with accelerators, object for the "
        "object's own metadata, or the path of other metadata, such as spec.jobTemplate.metadata.",
    )
    surge: FieldPath = Field(
        default="",
        json_schema_extra=publish_no_default,
        description="Where maxSurge and maxUnavailable of a rolling update are; left out, it does not surge.",
    )

    def as_core(self) -> row.Kind:
        plural = self.plural or f"{self.kind.lower()}s"
        return _row(self.group, self.kind, plural, tuple(self.versions), tuple(self.templates), self.label, self.surge)


@cache
def _row(
    group: str, kind: str, plural: str, versions: tuple[str, ...], templates: tuple[str, ...], label: str, surge: str
) -> row.Kind:
    """The same row for the same words, so that a policy that is read again is found to be the same."""
    place: Path | row.Place = row.Place.TEMPLATES if label == "templates" else () if label == "object" else parse(label)
    if isinstance(place, tuple) and place[-1:] == ("metadata",):
        # The metadata itself is meant as well as what has it.
        place = place[:-1]
    return row.Kind(
        group,
        kind,
        plural,
        versions,
        templates=tuple(row.Template(parse(path)) for path in templates),
        replicas=("spec", "replicas"),
        label=place,
        # Who heeds a label on an object that Kueue has no integration for is not known here.
        framework="pod" if place is row.Place.TEMPLATES else "",
        serves=True,
        selector=("spec", "selector"),
        surge=_surge(parse(surge)) if surge else None,
        custom=True,
        entry="others",
    )


def _surge(path: Path) -> row.Surge:
    """Beside a field rollingUpdate is the type of the strategy, as in a Deployment."""
    return row.Surge(path, (*path[:-1], "type") if path[-1] == "rollingUpdate" else ())
