"""Between a lab and the worker: asks what a choice needs while the lab is looked at, and shows what comes."""

from dataclasses import replace
from typing import Any, Generic, TypeVar

from PySide6.QtCore import QObject, QTimer, Slot

from attnscope.labs.lab import Lab
from attnscope.records.experiments import NO_ANSWER, ExperimentAnswer, Question
from attnscope.viewmodels.labs.experiments import ExperimentsState
from attnscope.widgets.labels import when
from attnscope.widgets.labs.lab_view import LabView

WAIT_MS = 250
"""A slider that moves asks for nothing until it has stood this long."""


C = TypeVar("C")


class ExperimentDesk(QObject, Generic[C]):
    """Belongs to one lab."""

    def __init__(self, view: LabView[C, Any], state: ExperimentsState) -> None:
        super().__init__(view)
        self._lab, self._plan, self._state = view.lab, view.plan, state
        self._is_watched = False
        self._timer = QTimer(self, singleShot=True, interval=WAIT_MS)
        self._timer.timeout.connect(self._ask)
        when(self, self._on_lab, view.lab.changed)
        when(self, self._show, state.changed.answers, state.changed.model)
        when(self, self._timer.start, state.changed.model)
        view.looked_at.connect(self.look)
        view.left.connect(self.leave)
        self._show()

    @property
    def is_busy(self) -> bool:
        """Whether an answer is awaited."""
        answer = self._answer()
        return self._is_watched and answer is not None and not answer.is_exact and not answer.error

    @Slot()
    def look(self) -> None:
        """The lab is seen: ask for what is missing."""
        self._is_watched = True
        self._ask()

    @Slot()
    def leave(self) -> None:
        """The lab is no longer seen: what is under way is given up."""
        self._is_watched = False
        self._timer.stop()
        question = self._question()
        if question is not None:
            self._state.stop(type(question))

    @Slot()
    def _ask(self) -> None:
        question = self._question()
        if self._is_watched and question is not None:
            self._state.ask(question)

    def _on_lab(self) -> None:
        answer = self._answer()
        if answer is not None and not (answer.is_exact or answer.is_asked or answer.error):
            self._timer.start()
        self._show()

    def _question(self) -> Question | None:
        return self._plan.question(self._lab.choice, self._state.open_model())

    def _answer(self) -> ExperimentAnswer | None:
        question = self._question()
        return None if question is None else self._state.answer(question)

    def _show(self) -> None:
        choice: Any = self._lab.choice
        answer = self._answer() or NO_ANSWER
        if choice.answer != answer:
            self._lab.choose(replace(choice, answer=answer))


def make_asking_view(lab: Lab[C, Any], state: ExperimentsState) -> LabView[C, Any]:
    """A lab whose choice has a field `answer`, with its desk as a child called `desk`."""
    view: LabView[C, Any] = LabView(lab)
    desk = ExperimentDesk(view, state)
    desk.setObjectName("desk")
    return view
