"""Making a plan true: one step at a time, each judged on what was just read, written once, and read back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

from webhook.engine.policy import Policy
from webhook.kube.objects import Object
from webhook.live.api import Api, ApiError
from webhook.live.plan.patches import merge_patch
from webhook.live.plan.state import State, with_quota
from webhook.live.plan.steps import Step, floors, judged

_ATTEMPTS = 20
"""At one step: every Workload that comes or goes has Kueue write a status, which makes a new version."""

_CONFLICT = 409


class Stopped(Exception):
    """Why it goes no further, and the exit code."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


class Application:
    """`done` and `pending` are what is to be told wherever it ends, also in the middle of a step."""

    def __init__(
        self,
        api: Api,
        read: Callable[[], State],
        steps: list[Step],
        policy: Policy,
        today: date,
        tell: Callable[[str], None],
    ) -> None:
        """`steps` are those that were agreed to; others are not made. `tell` gets a line after each."""
        self._api = api
        self._read = read
        self._policy = policy
        self._today = today
        self._tell = tell
        self._state: State | None = None
        self.done: list[Step] = []
        self.written: list[Step] = []
        """Those of `done` that were not so already."""

        self.pending = steps
        self.writing = False
        """Whether the first pending step may have been written, and was not read back yet."""

    def run(self) -> None:
        """Raises Stopped, and ApiError for an API server that does not answer."""
        count = len(self.pending)
        while self.pending:
            step = self.pending[0]
            written = self._make(step)
            self.writing = False
            if written:
                self.written.append(step)
            self.done.append(self.pending.pop(0))
            self._tell(
                f"{len(self.done)} of {count}: {step}: {'written, and read back' if written else 'is so already'}"
            )

    def settle(self) -> None:
        """After an interruption: looks once whether the step that was under way is written. Raises ApiError.

        One that is not may still be: the API server goes on with what it was asked for.
        """
        state = self._state
        if self.writing and state is not None and self._is_so(self.pending[0], self._stored(self.pending[0], state)):
            self.written.append(self.pending[0])
            self.done.append(self.pending.pop(0))
            self.writing = False

    def _make(self, step: Step) -> bool:
        """Whether it was written, and was not so already."""
        state = self._state = self._read()
        for _ in range(_ATTEMPTS):
            value = state.objects.get(step.target)
            if value is None:
                raise Stopped(f'{step.kind} "{step.name}" is gone')
            if self._is_so(step, value):
                return False
            now = floors(value)
            if any(now.get(move.key) != move.before for move in step.moves):
                why = "somebody else changed it meanwhile; run this again to see what is left to do"
                raise Stopped(f"{step}: {why}")
            self._judge(step, value, state)
            if self._written(step, value, state):
                self._read_back(step, state)
                return True
            # Whoever wrote it may have written other floors too.
            state = with_quota(self._api, state)
        raise Stopped(f"{step}: others write to it all the time; run this again when they have ended")

    def _judge(self, step: Step, value: Object, state: State) -> None:
        answer = judged(step, value, state.snapshot, self._policy, self._today)
        if answer.denials:
            raise Stopped("\n".join(finding.message for finding in answer.denials))
        if answer.not_evaluated:
            raise Stopped("\n".join(each.message for each in answer.not_evaluated), 3)

    def _written(self, step: Step, value: Object, state: State) -> bool:
        """False if there is another version by now."""
        self.writing = True
        try:
            self._api.patch(state.resources[step.kind], step.name, merge_patch(step, value))
        except ApiError as error:
            if error.code == _CONFLICT:
                self.writing = False
                return False
            if 0 < error.code < 500:
                self.writing = False
                raise Stopped(str(error)) from error
            # No answer, or one of somebody in between: it may have been written all the same.
            if not self._is_so(step, self._stored(step, state)):
                self.writing = False
                raise Stopped(str(error)) from error
        return True

    def _read_back(self, step: Step, state: State) -> None:
        if not self._is_so(step, self._stored(step, state)):
            self.writing = False
            raise Stopped(
                f"{step}: it was written, and is something else already: somebody else sets it, such as a GitOps tool; "
                "change it at its source"
            )

    def _stored(self, step: Step, state: State) -> Object | None:
        return self._api.get(state.resources[step.kind], step.name)

    @staticmethod
    def _is_so(step: Step, value: Object | None) -> bool:
        return value is not None and all(floors(value).get(move.key) == move.after for move in step.moves)
