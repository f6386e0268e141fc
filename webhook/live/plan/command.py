"""The command line of `floorkeeper plan`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.text import Text

from webhook.capacity.balance import KINDS
from webhook.engine.policy import Policy
from webhook.live.api import Api, ApiError
from webhook.live.options import (
    DONE,
    NOT_REACHED,
    NOT_SEEN,
    NOTHING_WRITTEN,
    Kubeconfig,
    Misuse,
    PolicyFile,
    Yes,
    interruptible,
    opened,
    refused,
)
from webhook.live.plan.applying import Application, Stopped
from webhook.live.plan.document import document, progress
from webhook.live.plan.effects import effects
from webhook.live.plan.numbers import Section, sections
from webhook.live.plan.patches import NOT_TRIED, yaml_patches
from webhook.live.plan.picture import draw
from webhook.live.plan.state import NoKueue, State, read_state
from webhook.live.plan.steps import Plan, Step, make_plan, steps_of
from webhook.live.plan.targets import BadTarget, Wanted, read_targets
from webhook.live.plan.trial import tried
from webhook.live.plan.wording import ended_lines, folded, plan_lines
from webhook.live.policy import Chosen, NoPolicy, choose_policy

_USUAL, _NARROWEST = 80, 40  # columns
_Output = Literal["text", "json", "yaml"]


def plan(
    wanted: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="<queue=n>",
            help="A floor to have: cq-a=7, cq-a/flavor/resource=7, or cohort:NAME=7; may be repeated.",
        ),
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Make it so, one step at a time, each read back; run again to continue.")
    ] = False,
    yes: Yes = False,
    output: Annotated[
        _Output, typer.Option("--output", "-o", help="text, json, or yaml: the patches in order, for kubectl.")
    ] = "text",
    kubeconfig: Kubeconfig = None,
    policy: PolicyFile = None,
) -> None:
    """Show floors beside hardware, and change them.

    What --set asks for is put in an order in which no step is denied.

    Exit codes: 0 all fits, 1 it does not or a step was denied, 2 something cannot be used, 3 something could not be
    looked at, 130 interrupted.
    """
    words = wanted or []
    if (apply or output == "yaml") and not words:
        raise Misuse("say what is wanted: --set QUEUE=AMOUNT")
    if apply and output == "yaml":
        raise Misuse("give --apply or -o yaml, not both")
    if yes and not apply:
        raise Misuse("--yes is of use with --apply alone")
    if apply and not yes and not (sys.stdin and sys.stdin.isatty()):
        raise Misuse("--apply asks before it writes, and stdin is no terminal: look at the plan, then give --yes")
    session = _Session(output, words)
    try:
        with interruptible(session.left), opened(kubeconfig) as api:
            code = session.run(api, choose_policy(api, policy), apply=apply, asks=not yes)
    except BadTarget as error:
        message = "\nfloorkeeper: ".join(str(error).splitlines())
        raise (Misuse(message) if error.misuse else refused(message)) from None
    except NoPolicy as error:
        raise refused("\nfloorkeeper: ".join(str(error).splitlines())) from None
    except (ApiError, NoKueue) as error:
        raise refused(str(error), NOT_SEEN) from None
    raise typer.Exit(code)


class _Session:
    """One run of the command."""

    def __init__(self, output: _Output, words: Sequence[str]) -> None:
        self._output = output
        self._words = words
        self._source = ""
        self._made: Application | None = None

    def left(self) -> str:
        """How things are left, in lines for whoever interrupted."""
        return NOTHING_WRITTEN if self._made is None else "\n".join(ended_lines(self._made))

    def run(self, api: Api, chosen: Chosen, *, apply: bool, asks: bool) -> int:
        """The exit code."""
        policy, today, self._source = chosen.policy, datetime.now(UTC).date(), chosen.source

        def read() -> State:
            return _read(api, policy)

        state = read()
        wanted = read_targets(self._words, state, policy.accelerators)
        shown = sections(state, policy, wanted)
        # Of the cluster as it is: planning changes the snapshot.
        told = {step: effects(state, step, wanted) for step in steps_of(state, wanted)}
        found = make_plan(state, wanted, policy, today) if self._words else None
        if found is not None and found.possible:
            found = tried(api, state, found)
        if self._output == "yaml" and found is not None and found.possible:
            print(yaml_patches(state, found), end="", flush=True)
            for reason in found.untried:
                print(f"floorkeeper: {NOT_TRIED}: {reason}", file=sys.stderr)
        elif self._output != "json":
            self._print_text(shown, wanted, state, found, told)
        code = _code(shown, state, found)
        steps = [planned.step for planned in found.steps] if found is not None else []
        if apply and found is not None and (not found.possible or found.untried):
            self._say("Nothing was written.")
        elif apply and steps:
            if asks and not typer.confirm(f"Apply {_counted(len(steps))}?", err=True):
                self._say("Nothing was written.")
                return NOT_REACHED
            self._made = Application(api, read, steps, policy, today, self._say)
            code = self._apply(self._made)
        elif apply:
            code = DONE
        if self._output == "json":
            written = {"policy": self._source, **document(shown, state.unread, found, told)}
            print(json.dumps({**written, **(progress(self._made) if apply else {})}, indent=2))
        return code

    def _apply(self, made: Application) -> int:
        code, problem = 0, ""
        mends = False
        try:
            made.run()
        except Stopped as stopped:
            code, problem, mends = stopped.code, str(stopped), True
        except ApiError as error:
            code, problem = NOT_SEEN, str(error)
        except (KeyboardInterrupt, OSError):
            # A second Ctrl-C ends the look too; what is not known is said to be so.
            with suppress(ApiError, KeyboardInterrupt):
                made.settle()
            raise
        if problem:
            with suppress(ApiError):
                made.settle()
            for line in problem.splitlines():
                print(f"floorkeeper: {line}", file=sys.stderr)
        for line in ended_lines(made, mends=mends):
            self._say(line)
        return code

    def _say(self, line: str) -> None:
        """Progress: beside the answer, where that is for a program."""
        print(line, file=sys.stdout if self._output == "text" else sys.stderr, flush=True)

    def _print_text(
        self,
        shown: Sequence[Section],
        wanted: Wanted,
        state: State,
        found: Plan | None,
        told: Mapping[Step, Sequence[str]],
    ) -> None:
        # What is asked for on stdout may be read by a program.
        console = Console(stderr=self._output != "text", highlight=False, markup=False, emoji=False)
        # 0 is what a terminal says that does not know; where less is left, lines are as long as they are.
        width = console.width = max(console.width or _USUAL, _NARROWEST)
        drawn = [section for section in shown if found is None or section.is_about(wanted)]
        with console.capture() as captured:
            if drawn or not shown:
                for drawing in draw(drawn, width, ascii_only=console.options.ascii_only):
                    console.print(drawing, soft_wrap=True)
            for text, style in self._notes(shown, drawn, state):
                for line in folded(text, width):
                    console.print(Text(line, style=style), soft_wrap=True)
            if found is not None:
                console.print()
                for text, style in plan_lines(found, told, width):
                    console.print(Text(text, style=style), soft_wrap=True)
        # rich itself ends the program where nobody reads any more.
        print(captured.get(), end="", file=sys.stdout if self._output == "text" else sys.stderr, flush=True)

    def _notes(self, shown: Sequence[Section], drawn: Sequence[Section], state: State) -> Iterator[tuple[str, str]]:
        others = {flavor for section in shown if section not in drawn for flavor in section.flavors}
        if others:
            which = "1 other flavor" if len(others) == 1 else f"{len(others)} other flavors"
            yield f"not drawn: {which} (floorkeeper plan draws all)", "dim"
        yield f"policy: {self._source}", "dim"
        for kind, reason in sorted(state.unread.items()):
            yield f"not evaluated: {kind}: {reason}", "yellow"


def _counted(steps: int) -> str:
    return "this step" if steps == 1 else f"these {steps} steps"


def _read(api: Api, policy: Policy) -> State:
    """Nodes apart, without which nothing is evaluated, all that floors depend on has to be there."""
    state = read_state(api, policy)
    refusals = [state.unread[kind] for kind in sorted(KINDS - {"Node"}) if kind in state.unread]
    if refusals:
        raise ApiError("; ".join(refusals), 403)
    return state


def _code(shown: Sequence[Section], state: State, found: Plan | None) -> int:
    if found is not None and (found.refused or found.rejected):
        return NOT_REACHED
    if state.unread or (
        found.not_evaluated or found.untried if found is not None else any(each.not_evaluated for each in shown)
    ):
        return NOT_SEEN
    fits = found.fits if found is not None else not any(section.unmet_hardware for section in shown)
    return 0 if fits else NOT_REACHED
