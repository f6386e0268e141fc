"""Checks of our webhook configurations: that they are there, as shipped, called in time, and trust our server."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.kube.names import KUEUE_GROUP
from webhook.kube.objects import Object, at, mapping, metadata, sequence, string
from webhook.live.audit.certificates import CERTIFICATE, of_bundle, of_certificate
from webhook.live.audit.differences import RENDER, differences
from webhook.live.audit.judging import reference
from webhook.live.audit.registrations import MUTATING, SECRETS, VALIDATING, ours, webhook_names
from webhook.live.audit.report import Reference
from webhook.live.audit.standing import Defect, NotLookedAt, Standing
from webhook.scope import NAME, webhook_configurations

_KINDS = (MUTATING.name, VALIDATING.name)
_API_VERSION = "admissionregistration.k8s.io/v1"
_KUEUE_WEBHOOKS = frozenset({"mpod.kb.io", "mdeployment.kb.io", "mstatefulset.kb.io", "mjob.kb.io"})
"""Names by which Kueue's mutating configuration is known, whatever it is called."""

_IF_NEEDED = "IfNeeded"


def registered(standing: Standing) -> Iterator[Defect]:
    """Both webhook configurations are registered.

    Without the mutating one nothing is labelled or mended, without the validating one nothing is denied. Install
    Floorkeeper whole (README, Install): a webhook whose Service or certificate is not there refuses every write that it
    would be asked about.
    """
    for kind, found in _by_kind(standing).items():
        if not found:
            does = "mended" if kind.startswith("Mutating") else "denied"
            yield Defect(
                Reference("", kind, NAME, _API_VERSION),
                ("webhooks",),
                must="must be registered",
                actual="absent",
                fix="install Floorkeeper, and apply this last, once its server runs: without that, each write that it "
                f"would be asked about is refused; until then nothing is {does}",
            )
    standing.need(*_KINDS)


def same_as_shipped(standing: Standing) -> Iterator[Defect]:
    """The webhook configurations are what `floorkeeper render` makes of the policy.

    A difference by which Floorkeeper is not asked, or about less, is a denial: a selector that chooses less, another
    Service. One by which it is asked about more, or otherwise, is a warning: an admin may want it so. Their caBundle is
    looked at by another check.
    """
    shipped = {value["kind"]: value for value in webhook_configurations(standing.policy)}
    for kind, configurations in _by_kind(standing).items():
        wanted = {webhook["name"]: webhook for webhook in shipped[kind]["webhooks"]}
        there = {name for configuration in configurations for name in webhook_names(configuration)}
        for configuration in configurations:
            yield from differences(configuration, wanted)
        if configurations:
            about = reference(configurations[0], namespaced=False)
            for name in sorted(wanted.keys() - there):
                yield Defect(about, ("webhooks",), f"must hold {name}", "without it", f"apply it anew: {RENDER}")
    standing.need(*_KINDS)


def order(standing: Standing) -> Iterator[Defect]:
    """Our mutating webhooks are called before Kueue's, or Kueue's are called again after ours.

    Mutating webhooks are called in the order of their configurations' names. Kueue's copies the label of a Deployment
    over its template's: called after that, Floorkeeper cannot tell what the user wrote, and Kueue does not see what
    Floorkeeper adds.
    """
    standing.need(MUTATING.name)
    mutating = standing.registrations.mutating
    for own in ours(mutating):
        name = string(metadata(own).get("name"))
        for kueue in mutating:
            other = string(metadata(kueue).get("name"))
            if other < name and _is_kueues(kueue) and not _is_called_again(kueue):
                yield Defect(
                    reference(own, namespaced=False),
                    ("metadata", "name"),
                    must=f"must sort before {other}, whose webhooks are called once",
                    actual=name,
                    fix=f"register it by a name that does, such as {NAME}, or set reinvocationPolicy to IfNeeded there",
                )


def _is_kueues(configuration: Object) -> bool:
    name = string(metadata(configuration).get("name"))
    return "kueue" in name or not _KUEUE_WEBHOOKS.isdisjoint(webhook_names(configuration))


def _is_called_again(configuration: Object) -> bool:
    """Whether each of its webhooks for workloads is."""
    return all(
        webhook.get("reinvocationPolicy") == _IF_NEEDED
        for webhook in map(mapping, sequence(configuration.get("webhooks")))
        if any(_is_about_workloads(mapping(rule)) for rule in sequence(webhook.get("rules")))
    )


def _is_about_workloads(rule: Object) -> bool:
    return any(group != KUEUE_GROUP for group in sequence(rule.get("apiGroups")))


def ca_bundles(standing: Standing) -> Iterator[Defect]:
    """The API server trusts our server by the caBundle of each webhook.

    An empty, unreadable, expired or foreign one makes every call fail: what should be judged is refused, or let
    through unjudged where failurePolicy is Ignore. So does a certificate of the server that has expired, or is for
    other names than the Service's. Looked at is the certificate in the Secret, and not what the server shows.
    """
    registrations = standing.registrations
    asked = False
    for configuration in ours((*registrations.mutating, *registrations.validating)):
        told: dict[str, list[int]] = {}
        for index, webhook in enumerate(map(mapping, sequence(configuration.get("webhooks")))):
            client = mapping(webhook.get("clientConfig"))
            if "url" in client and not client.get("caBundle"):
                # Then the API server trusts what its own machine does.
                continue
            asked = True
            wrong = of_bundle(client.get("caBundle"), registrations.secret, registrations.secret_name, standing.now)
            if wrong:
                told.setdefault(wrong, []).append(index)
        for wrong, (first, *others) in told.items():
            where = f", and so are those of {len(others)} more webhooks" if others else ""
            yield Defect(
                reference(configuration, namespaced=False),
                ("webhooks", first, "clientConfig", "caBundle"),
                must="must be what the server's certificate is signed by",
                actual=f"{wrong}{where}",
                fix="put the CA of the server's certificate there: with --tls-secret, or cert-manager, it is kept so",
            )
    yield from _certificate(standing)
    standing.need(*_KINDS)
    if asked and registrations.secret is None:
        reason = registrations.unread.get(SECRETS.name, "the Secret was not read")
        raise NotLookedAt(f"whether the caBundle fits the server's certificate: {reason}")


def _certificate(standing: Standing) -> Iterator[Defect]:
    registrations = standing.registrations
    if registrations.secret is None:
        return
    home, _, name = registrations.secret_name.partition("/")
    hosts = {
        f"{string(service.get('name'))}.{home}.svc"
        for configuration in ours((*registrations.mutating, *registrations.validating))
        for webhook in sequence(configuration.get("webhooks"))
        if (service := mapping(at(webhook, ("clientConfig", "service")))).get("namespace") == home
    }
    for wrong in of_certificate(registrations.secret, sorted(hosts), standing.now):
        yield Defect(
            Reference(home, "Secret", name, "v1"),
            ("data", CERTIFICATE),
            must="must be a certificate that the API server accepts",
            actual=wrong,
            fix="issue it anew: until then every call fails; with --tls-secret, or cert-manager, it is kept so",
        )


def _by_kind(standing: Standing) -> dict[str, list[Object]]:
    """Ours, of the kinds that could be listed."""
    registrations = standing.registrations
    found = {
        MUTATING.name: ("MutatingWebhookConfiguration", ours(registrations.mutating)),
        VALIDATING.name: ("ValidatingWebhookConfiguration", ours(registrations.validating)),
    }
    return {kind: own for name, (kind, own) in found.items() if name not in registrations.unread}
