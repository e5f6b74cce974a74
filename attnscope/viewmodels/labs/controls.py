"""The settings of labs, with undo and redo; and the experiments that the worker runs for labs, requested once
each and kept.
"""

import operator
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Generic, TypeVar, cast

from psygnal import EmitLoopError, Signal, SignalGroup

from attnscope.paths import demo_name
from attnscope.records.experiments import (
    NO_ANSWER,
    BleuQuestion,
    CollapseQuestion,
    ExperimentAnswer,
    ExperimentNews,
    Finding,
    OpenModel,
    ProbeQuestion,
    Question,
    RunExperiment,
)
from attnscope.records.messages import ModelLoaded
from attnscope.records.requests import Reply
from attnscope.viewmodels.query import Job, Requests
from attnscope.viewmodels.session.changes import UndoStack
from attnscope.viewmodels.session.state import Session

LabValues = tuple[tuple[str, bool | int | float | str], ...]
"""A lab's settings by name, as stored in a file."""
T = TypeVar("T")
_LARGEST = 1e6
"""No lab has a number larger than this; one in a file is left."""


class LabControls(Generic[T]):
    """The frozen choice of a lab, read by `get` and set by `take`, with its history.

    `allows` says of a choice from a file whether the lab's own controls could make it.
    """

    changed = Signal()
    """The user made another choice."""

    def __init__(
        self,
        example: T,
        get: Callable[[], T],
        take: Callable[[T], None],
        *,
        is_example: Callable[[T, T], bool] = operator.eq,
        allows: Callable[[T], bool],
    ) -> None:
        self._example, self._get, self._take = example, get, take
        self._is_example, self._allows = is_example, allows
        self._past: UndoStack[T] = UndoStack()

    @property
    def can_undo(self) -> bool:
        """Whether a change can be undone."""
        return self._past.can_undo

    @property
    def can_redo(self) -> bool:
        """Whether a change can be redone."""
        return self._past.can_redo

    @property
    def is_example(self) -> bool:
        """Whether everything is as in the example."""
        return self._is_example(self._get(), self._example)

    def ask(self, choice: T, group: str = "") -> None:
        """Change the choice for the user; consecutive ones of one non-empty `group` are one step."""
        if choice != self._get():
            self._past.leave(self._get(), group)
            self._change(choice)

    def settle(self) -> None:
        """End a drag: the next change is a step of its own."""
        self._past.close_group()

    def undo(self) -> None:
        """Take back the last change."""
        self._change(self._past.undo(self._get()))

    def redo(self) -> None:
        """Make the change again that was taken back."""
        self._change(self._past.redo(self._get()))

    def reset(self) -> None:
        """Return to the example, as a step of its own."""
        if not self.is_example:
            self.ask(self._example)

    @property
    def values(self) -> LabValues:
        """The numbers, texts and switches of the choice, by the names of their fields."""
        return _values_of(self._get())

    def take_values(self, values: LabValues) -> None:
        """Restore saved values; a choice that the lab cannot show is ignored."""
        # from a file: anything may be in it; what fails at showing it is told as an EmitLoopError
        with suppress(ValueError, LookupError, ArithmeticError, TypeError, EmitLoopError):
            choice = _with_values(self._example, values)
            if self._allows(choice):
                self.ask(choice)

    def _change(self, choice: T) -> None:
        self._take(choice)
        self.changed.emit()


class UnkeptControls(LabControls[T]):
    """Settings of a lab that are not saved in files."""

    def __init__(self, example: T, get: Callable[[], T], take: Callable[[T], None]) -> None:
        super().__init__(example, get, take, allows=lambda _: False)

    @property
    def values(self) -> LabValues:
        return ()


def _values_of(choice: object) -> LabValues:
    found = ((f.name, getattr(choice, f.name)) for f in fields(cast("Any", choice)))
    return tuple((name, value) for name, value in found if isinstance(value, bool | int | float | str))


def _with_values(choice: T, values: LabValues) -> T:
    """The choice with these values; unknown ones, or of the wrong type, are ignored."""
    own, known = dict(_values_of(choice)), dict[str, object]()
    for name, value in values:
        kind = type(own.get(name))
        is_small = isinstance(value, bool | str) or abs(value) <= _LARGEST
        if name in own and is_small and (type(value) is kind or (kind is float and type(value) is int)):
            known[name] = kind(value)
    return cast("T", replace(cast("Any", choice), **known))


Choice = TypeVar("Choice")
Shown = TypeVar("Shown")


class LabState(Generic[Choice, Shown]):
    """Holds a frozen choice and the result of `resolve`."""

    changed = Signal()

    def __init__(self, choice: Choice, resolve: Callable[[Choice], Shown]) -> None:
        self._resolve = resolve
        self.choice = choice
        self.shown = resolve(choice)

    def choose(self, choice: Choice) -> None:
        """Set another choice and evaluate it; an equal one does nothing."""
        if choice != self.choice:
            self.shown = self._resolve(choice)
            self.choice = choice
            self.changed.emit()


MAX_KEPT = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pending:
    question: Question
    job: Job[ExperimentNews, ExperimentNews]


class ExperimentsChanges(SignalGroup):
    """Signals of ExperimentsState."""

    answers = Signal()
    model = Signal()
    """Questions about the open model."""


class ExperimentsState:
    """At most one experiment of each kind at a time; a newer question of the kind ends it."""

    def __init__(
        self,
        session: Session,
        requests: Requests,
        *,
        read_kept: Callable[[], Mapping[Question, Finding]] = dict,
    ) -> None:
        self._session, self._requests = session, requests
        self._read_kept = read_kept
        self.changed = ExperimentsChanges()
        self._known: OrderedDict[Question, Finding] = OrderedDict()
        self._refused: dict[Question, str] = {}
        self._latest: dict[type, Finding] = {}
        self._pending: dict[type, _Pending] = {}
        for signal in (session.changed.model, session.changed.traced, session.changed.text):
            signal.connect(self._on_session, max_args=0)

    def _on_session(self) -> None:
        self.changed.model.emit()

    @property
    def under_way(self) -> tuple[tuple[Question, int, int], ...]:
        """Each question in progress, how much of it is done, of how much (0: waiting)."""
        return tuple(
            (one.question, news.n_done, news.n_total) if (news := one.job.answer) else (one.question, 0, 0)
            for one in self._pending.values()
        )

    @cached_property
    def _kept(self) -> Mapping[Question, Finding]:
        """Findings that came with the program, read on first use."""
        return self._read_kept()

    def open_model(self) -> OpenModel | None:
        """The open model, and the text that it has read; None without one.

        One that comes with the program has the same key in every installation.
        """
        session, info = self._session, self._session.model
        if info is None:
            return None
        has_read = session.traced is not None and bool(session.text.strip())
        return OpenModel(
            key=f"{demo_name(info.source) or info.source} {info.sha256}",
            text=session.text if has_read else "",
            target=session.target if has_read else None,
            translates=info.form == "encoder-decoder" and info.objective == "translation",
            is_toy=any(info.words),
        )

    def answer(self, question: Question) -> ExperimentAnswer:
        """Answer known so far; an earlier finding of its kind stands in until its own arrives."""
        if question in self._known:
            return ExperimentAnswer(finding=self._known[question], is_exact=True)
        if question in self._kept:
            return ExperimentAnswer(finding=self._kept[question], is_exact=True, is_kept=True)
        is_of_model = isinstance(
            question, CollapseQuestion | BleuQuestion | ProbeQuestion
        )  # another model's finding would mislead
        latest = None if is_of_model else self._latest.get(type(question))
        if question in self._refused:
            return ExperimentAnswer(error=self._refused[question])
        pending = self._pending.get(type(question))
        if pending is None or pending.question != question:
            return ExperimentAnswer(finding=latest) if latest is not None else NO_ANSWER
        news = pending.job.answer
        if news is None:
            return ExperimentAnswer(finding=latest, is_asked=True)
        return ExperimentAnswer(
            finding=news.finding or latest, is_asked=True, n_done=news.n_done, n_total=news.n_total
        )

    def ask(self, question: Question) -> None:
        """Request an answer, unless it is known, refused or in progress."""
        if question in self._known or question in self._kept or question in self._refused:
            return
        pending = self._pending.get(type(question))
        if pending is None or pending.question != question:
            self._send(question)
            self.changed.answers.emit()

    def stop(self, kind: type) -> None:
        """Cancel the running experiment of a kind."""
        pending = self._pending.pop(kind, None)
        if pending is not None:
            pending.job.stop()
            self.changed.answers.emit()

    def handle(self, reply: Reply) -> None:
        """Handle a reply; those for other parts of the window are ignored."""
        if isinstance(reply, ModelLoaded):  # the worker gives up whatever runs when a model is opened
            for pending in tuple(self._pending.values()):
                self._send(pending.question)
            self.changed.model.emit()
            return
        for pending in tuple(self._pending.values()):
            if pending.job.take(reply):
                self._settle(pending)
                self.changed.answers.emit()

    def _send(self, question: Question) -> None:
        job = Job(ExperimentNews, ExperimentNews, self._requests, is_last=_is_whole)
        self._pending[type(question)] = _Pending(question=question, job=job)
        job.start(RunExperiment(question=question))

    def _settle(self, pending: _Pending) -> None:
        """Keep the result of an experiment that has ended."""
        question, job = pending.question, pending.job
        if job.is_running:
            return
        self._pending.pop(type(question))
        if job.phase == "failed":
            self._refused[question] = job.error
        elif job.answer is not None and job.answer.finding is not None:
            self._known[question] = self._latest[type(question)] = job.answer.finding
            if len(self._known) > MAX_KEPT:
                self._known.popitem(last=False)


def _is_whole(news: ExperimentNews) -> bool:
    return news.is_done and news.finding is not None
