"""`floorkeeper render`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from webhook.commands.failure import Failure


def render(
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATH", help="Manifests: files, folders, kustomizations' folders, or - for stdin."),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Policy file; without it, that of PATH or the defaults."),
    ] = None,
    ca_file: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="Certificates that the API server is to trust the server by, in PEM."
        ),
    ] = None,
) -> None:
    """Print the webhook configurations that agree with a policy.

    Their selectors, kinds and accelerators are the policy's, and their caBundle is --ca-file. With PATH, the manifests
    there are printed with these configurations among them, and with the policy in the ConfigMap floorkeeper-policy.
    """
    from webhook.engine.policy import Policy
    from webhook.policy import PolicyError, parse_policy, read_policy
    from webhook.render import (
        CaError,
        ManifestError,
        other_namespaces,
        placeholders,
        policy_in,
        read_ca_bundle,
        render_manifests,
        render_webhooks,
    )

    try:
        wanted = Policy() if policy is None else read_policy(policy)
        ca_bundle = b"" if ca_file is None else read_ca_bundle(ca_file)
        if paths:
            objects = _read_objects(paths)
            text = policy_in(objects) if policy is None else policy.read_bytes().decode()
            if policy is None:
                wanted = parse_policy(text, "ConfigMap floorkeeper-policy, policy.yaml")
            print(render_manifests(objects, wanted, text, ca_bundle), end="")
            where = "ConfigMap floorkeeper-policy" if policy is None else str(policy)
            for note in (*placeholders(objects), *other_namespaces(objects, wanted, where)):
                print(f"floorkeeper: {note}", file=sys.stderr)
            return
    except (PolicyError, CaError, ManifestError) as error:
        raise Failure(str(error)) from None
    print(render_webhooks(wanted, ca_bundle), end="")
    if not ca_bundle:
        print(
            "floorkeeper: no caBundle: the API server will refuse the server's certificate, and with it every write "
            "that should be judged; pass --ca-file",
            file=sys.stderr,
        )


def _read_objects(paths: Sequence[str]) -> list[Mapping[str, Any]]:
    """The objects at these paths, as `check` reads them. Raises Failure unless all of them can be read."""
    from webhook.check.inputs import read_inputs

    inputs = read_inputs(paths, sys.stdin.buffer)
    if inputs.faults:
        places = [fault.place for fault in inputs.faults]
        shown = [":".join(str(part) for part in (place.file, place.line, place.column) if part) for place in places]
        raise Failure("\n".join(f"{at}: {fault.message}" for at, fault in zip(shown, inputs.faults, strict=True)))
    return [document.value for document in inputs.documents]
