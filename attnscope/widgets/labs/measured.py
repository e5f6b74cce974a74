"""Labs that measure: through the worker, or in a thread of their own."""

from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from typing import Any, Generic, TypeVar

from PySide6.QtCore import QObject, QThread, QTimer, Signal, Slot

from attnscope.labs.cost import MEASURED, measure_costs
from attnscope.labs.cost_of_heads import HEADS, time_heads
from attnscope.labs.lab import AnyLab, Lab
from attnscope.records.experiments import NO_ANSWER, ExperimentAnswer, Question
from attnscope.viewmodels.labs.controls import ExperimentsState
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
        """Whether an answer is pending."""
        answer = self._answer()
        return self._is_watched and answer is not None and not answer.is_exact and not answer.error

    @Slot()
    def look(self) -> None:
        """The lab is visible: request what is missing."""
        self._is_watched = True
        self._ask()

    @Slot()
    def leave(self) -> None:
        """The lab is hidden: cancel its requests."""
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
    """Make the view of a lab whose choice has a field `answer`, with its desk as a child called `desk`."""
    view: LabView[C, Any] = LabView(lab)
    desk = ExperimentDesk(view, state)
    desk.setObjectName("desk")
    return view


Measure = Callable[[Any], Iterator[Any]]
"""Measures point by point at the sizes that it is given."""
_WAIT_MS = 3000


class MeasuringThread(QThread):
    """Runs a measurement point by point; `measured` carries each of them."""

    measured = Signal(object)

    def __init__(self, sizes: Hashable, measure: Measure, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("measuring")  # a nameless thread is asked for its class, on itself: `PlotsAhead`
        self.sizes, self._measure = sizes, measure

    def run(self) -> None:
        for point in self._measure(self.sizes):
            if self.isInterruptionRequested():
                return
            self.measured.emit(point)

    def end(self) -> None:
        """Stop after the current point, and wait for that."""
        self.requestInterruption()
        self.wait(_WAIT_MS)


class CostMeter(QObject):
    """Measures while the lab is visible, anew for other sizes; measurements are kept.

    The choice of the lab has `sizes`, and the `points` measured at them, `n_points` when all are.
    """

    def __init__(self, view: LabView[Any, Any], measure: Measure, n_points: int) -> None:
        super().__init__(view)
        self._lab, self._measure, self._n_points = view.lab, measure, n_points
        self._known: dict[Hashable, tuple[Any, ...]] = {}
        self._thread: MeasuringThread | None = None
        self._is_watched = False
        when(self, self._show, view.lab.changed)

    @property
    def is_busy(self) -> bool:
        """Whether a measurement is running."""
        return self._thread is not None

    @Slot()
    def look(self) -> None:
        """The lab is visible: measure what is missing."""
        self._is_watched = True
        self._show()

    @Slot()
    def leave(self) -> None:
        """The lab is hidden: stop."""
        self._is_watched = False
        self._stop()

    @Slot()
    def measure_again(self) -> None:
        """Drop the measurements at these sizes, and repeat them."""
        self._known.pop(self._lab.choice.sizes, None)
        self._stop()
        self._show()

    def _show(self) -> None:
        choice = self._lab.choice
        known = self._known.get(choice.sizes, ())
        if choice.points != known:
            self._lab.choose(replace(choice, points=known))
            return
        if self._thread is not None and self._thread.sizes != choice.sizes:
            self._stop()
        if self._is_watched and self._thread is None and len(known) < self._n_points:
            self._known[choice.sizes] = ()
            self._thread = MeasuringThread(choice.sizes, self._measure, self)
            self._thread.measured.connect(self._on_measured)
            self._thread.finished.connect(self._on_finished)
            self._thread.start()
            if known:
                self._lab.choose(replace(choice, points=()))

    def _stop(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.end()
            thread.deleteLater()

    @Slot(object)
    def _on_measured(self, point: Any) -> None:
        if self._thread is None or self.sender() is not self._thread:
            return
        self._known[self._thread.sizes] = (*self._known.get(self._thread.sizes, ()), point)
        self._show()

    @Slot()
    def _on_finished(self) -> None:
        if self.sender() is self._thread:
            self._stop()


def make_cost_view(entry: AnyLab, measure: Measure = measure_costs) -> LabView[Any, Any]:
    """The lab of cost by length, as `metered`."""
    tip = "Time both on this computer with numpy, the best of three runs for each length"
    return metered(entry, measure, len(MEASURED), tip)


def make_heads_view(entry: AnyLab, measure: Measure = time_heads) -> LabView[Any, Any]:
    """The lab of the cost of heads, as `metered`."""
    tip = "Time every number of heads on this computer with numpy, nine runs each"
    return metered(entry, measure, len(HEADS), tip)


def metered(entry: AnyLab, measure: Measure, n_points: int, tip: str) -> LabView[Any, Any]:
    """A lab with its meter, a child called `meter`, and the button that measures anew, `again`."""
    view: LabView[Any, Any] = LabView(entry)
    meter = CostMeter(view, measure, n_points)
    meter.setObjectName("meter")
    view.looked_at.connect(meter.look)
    view.left.connect(meter.leave)
    button = view.add_button("Measure again", tip)
    button.setObjectName("again")
    button.clicked.connect(meter.measure_again)
    return view
