"""What a row of the kinds table says about its kind. Reading it is the business of `webhook.kube.pod_sets`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from webhook.kube.objects import Object, Path
from webhook.kube.shapes import POD, Shape


class Place(Enum):
    """Where a queue label goes, if to no one object."""

    TEMPLATES = "templates"
    """Each pod template that asks for an accelerator carries it: every pod is admitted on its own."""

    NOWHERE = "nowhere"
    """No queue can hold the kind."""


class Relabel(Enum):
    """What a queue label does that is added later."""

    RESTARTS = "restarts"
    """It reaches the pods by replacing them."""

    NEW_PODS = "new pods"
    """It restarts nothing, and pods that exist go on without it."""

    NEW_JOBS = "new jobs"
    """It is for what is yet to be made, so it can be added at any time."""

    NOTHING = "nothing"
    """It is too late for it, or Kueue refuses it."""


@dataclass(frozen=True, slots=True)
class Count:
    """A number of pods, or of groups of them: what is at `path`, or `absent`, and no more than at each of `caps`.

    Stars stand for the same steps as in the template's path.
    """

    path: Path
    absent: int = 1
    caps: tuple[Path, ...] = ()
    least: Path = ()
    """Where the kind's controller has a minimum that it keeps even so, and that Kueue does not count."""


@dataclass(frozen=True, slots=True)
class Template:
    """Where a kind keeps pod templates, and how many pods of one unit are made from each.

    A unit is what is admitted as a whole: one pod of a Deployment, one group of a LeaderWorkerSet, all of a Job.
    """

    path: Path
    """May hold stars."""

    shape: Shape = POD
    pods: tuple[Count, ...] = ()
    """Multiplied; one pod without any."""

    less: Path = ()
    """What takes one of these pods, if it is there: the leader of a LeaderWorkerSet."""

    minimum: Path = ()
    """Where it says with how many pods Kueue may admit the unit in part."""

    maximum: Count | None = None
    """What the first of `pods` can become by autoscaling."""

    scales: Path = ()
    """Where it says whether it is autoscaled; () if it always is, as far as there is a maximum."""

    filled: bool = False
    """Limits become requests before anybody judges them: so it is for a Pod, and for pods that have limits alone."""

    common: bool = False
    """No pods are made from it: it is what pods of other templates get too, such as volumes."""

    twin: Template | None = None
    """Another template, which tells of the same pods and counts where it asks for accelerators."""

    assumed: Object | None = field(default=None, compare=False)
    """What the pod is where there is no template, as far as Kueue counts it."""

    unless: tuple[Path, tuple[str, ...]] = ((), ())
    """A field, and values of it with which none is assumed."""


@dataclass(frozen=True, slots=True)
class Surge:
    """A rolling update that may make new pods before old ones go, with quota for both."""

    path: Path
    """Where maxSurge and maxUnavailable are."""

    type: Path = ()
    """Where the strategy is named, which is RollingUpdate or absent if this applies."""

    optional: bool = False
    """Whether it applies only where something is at `path`."""

    surge: int | str = "25%"
    """What an absent maxSurge means."""

    unavailable: int | str = "25%"
    fixed: bool = True
    """Whether it is mended, or told."""


@dataclass(frozen=True, slots=True)
class Doubling:
    """A field by which each change starts new pods before old ones go, whatever else is set. It cannot be mended."""

    path: Path
    absent: str = ""
    """What the field's absence means, '' if it doubles nothing."""

    unless: tuple[str, ...] = ()
    """Values with which it does not."""

    actual: str = ""
    """What it does, for a message; the field's value says it if this does not."""

    fix: str = ""
    without: Path = ()
    """What keeps it from doing so where it is there."""


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One row of the table. Rows are told apart by what they are, not by what they hold."""

    group: str
    kind: str
    resource: str
    """The plural name in URLs and in webhook rules."""

    versions: tuple[str, ...] = ("v1",)
    templates: tuple[Template, ...] = ()
    holds: Path = ()
    """Where whole objects of other kinds are, whose templates it answers for (AppWrapper). May hold one star."""

    replicas: Path = ()
    """Where the number of units is; () if the object is one unit."""

    pods_now: Path = ()
    """Where the status counts what runs; () if it does not, and an object that exists is taken to run."""

    suspend: Path = ()
    """Where it says that it waits: then it has no pods, and Kueue takes a label that is added."""

    uncounted: tuple[Path, ...] = ()
    """Fields by which its pods get accelerators that no request tells of."""

    label: Path | Place = Place.TEMPLATES
    """Where the queue label goes: a path is that of the metadata's owner, () being the object itself."""

    relabel: Relabel = Relabel.RESTARTS
    framework: str = "pod"
    """The integration of Kueue (its integrations.frameworks) that heeds the label, '' if none does."""

    gang: bool = False
    """Whether all pods of a unit are admitted together, or none is."""

    opaque: bool = False
    """Whether other objects that it names say what its pods ask for, too, such as a runtime."""

    serves: bool = False
    """Whether its pods run for good and answer requests, which a Job's do not."""

    selector: Path = ()
    """Where the label selector for its pods is; () if the kind has none."""

    grace: tuple[str, int] = ("terminationGracePeriodSeconds", 30)
    """The field of the pod spec that says how many seconds a pod has to end, and what its absence means."""

    between: tuple[str, ...] = ()
    """Kinds of the same group that its controller makes, and that own what makes the pods."""

    surge: Surge | None = None
    doubles: tuple[Doubling, ...] = ()
    kueue_defaults: bool = False
    """Kueue's webhook labels the object with a LocalQueue `default` at any write, whatever its template says, and goes
    by the object's label (Kueue 0.17)."""

    shuns_object_label: bool = False
    """With a label on the object itself, Kueue mishandles its scaling (Kueue 0.17)."""

    shuns_template_label: bool = False
    """With a label on its templates, too, Kueue counts its pods one by one beside their group (Kueue 0.17)."""

    custom: bool = False
    """Whether a policy added it."""

    entry: str = ""
    """The part of the webhook configurations that asks about it, '' if it is no workload."""

    cluster_scoped: bool = False
    """Quota objects are in no namespace and share the hardware, so they are judged wherever they are used. Not set for
    Namespace, which the API server takes to be in itself."""

    @property
    def is_workload(self) -> bool:
        return bool(self.entry)

    @property
    def labelled_whole(self) -> bool:
        """Whether one label stands for all its templates."""
        return isinstance(self.label, tuple)


Names = Mapping[tuple[str, str], Kind]
"""Rows by API group and kind."""
