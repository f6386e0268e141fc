"""The policy that a command goes by: that of a file, or the one that the cluster's own Floorkeeper has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from webhook.engine.policy import Policy
from webhook.kube.objects import mapping
from webhook.live.api import CONFIG_MAPS, Api, ApiError
from webhook.policy import PolicyError, parse_policy, read_policy
from webhook.render import POLICY_CONFIG_MAP, POLICY_KEY

_HOME = "floorkeeper-system"


class NoPolicy(Exception):
    """The policy cannot be used. The message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Chosen:
    policy: Policy
    source: str
    """Where it is from, as a person would name it."""


def choose_policy(api: Api, file: Path | None) -> Chosen:
    """Without a file, what is in force in the cluster; where Floorkeeper is not installed, the defaults.

    Raises NoPolicy, and ApiError where the cluster's cannot be read: what goes by another policy than the one in force
    would mislead.
    """
    try:
        if file is not None:
            return Chosen(read_policy(file), str(file))
        found = api.get(CONFIG_MAPS, POLICY_CONFIG_MAP, _HOME)
        where = f"ConfigMap {_HOME}/{POLICY_CONFIG_MAP}"
        if found is None:
            return Chosen(Policy(), f"the defaults, for there is no {where}")
        text = mapping(found.get("data")).get(POLICY_KEY)
        if not isinstance(text, str):
            raise NoPolicy(f"{where} has no {POLICY_KEY}; give the policy with --policy")
        return Chosen(parse_policy(text, f"{where}, {POLICY_KEY}"), where)
    except PolicyError as error:
        raise NoPolicy(str(error)) from None
    except ApiError as error:
        advice = "or give the policy with --policy" if error.code else "check the network and the kubeconfig"
        raise ApiError(f"{error}; {advice}", error.code) from error


class CurrentPolicy:
    """The policy of a command that looks again and again: what has changed counts with the next look."""

    def __init__(self, file: Path | None, say: Callable[[str], None]) -> None:
        """`say` is told, in a line, where the policy is from, and why the last good one stays."""
        self._file = file
        self._say = say
        self._chosen: Chosen | None = None
        self._problem = ""

    @property
    def policy(self) -> Policy:
        """The last good one. There must have been a `read`."""
        assert self._chosen is not None
        return self._chosen.policy

    def read(self, api: Api) -> Policy:
        """Raises NoPolicy and ApiError while there was no good one yet."""
        try:
            found = choose_policy(api, self._file)
        except (NoPolicy, ApiError) as error:
            if self._chosen is None:
                raise
            if str(error) != self._problem:
                self._say(f"policy: {error}; the last good one stays")
            self._problem = str(error)
            return self.policy
        before, self._chosen = self._chosen, found
        if before is None:
            self._say(f"policy: {found.source}")
        elif found != before:
            self._say(f"policy: {found.source}, which has changed")
        elif self._problem:
            self._say(f"policy: {found.source}, as before")
        self._problem = ""
        return found.policy
