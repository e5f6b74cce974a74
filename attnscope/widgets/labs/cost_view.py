"""The lab of cost by length: measured in a thread of its own, so that the window never waits."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from PySide6.QtCore import QObject, QThread, Signal, Slot

from attnscope.labs.cost import MEASURED, CostChoice, CostPoint, LengthCosts, measure_costs
from attnscope.labs.lab import Lab
from attnscope.widgets.labels import when
from attnscope.widgets.labs.lab_view import LabView

Measure = Callable[[int], Iterator[CostPoint]]
_WAIT_MS = 3000


class MeasuringThread(QThread):
    """Goes through a measurement point by point; `measured` carries each of them."""

    measured = Signal(object)

    def __init__(self, d_model: int, measure: Measure, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.d_model, self._measure = d_model, measure

    def run(self) -> None:
        for point in self._measure(self.d_model):
            if self.isInterruptionRequested():
                return
            self.measured.emit(point)

    def end(self) -> None:
        """Stop after the point in progress, and wait for that."""
        self.requestInterruption()
        self.wait(_WAIT_MS)


class CostMeter(QObject):
    """Measures while the lab is looked at, anew for each width; what was measured is kept."""

    def __init__(self, view: LabView[CostChoice, LengthCosts], measure: Measure = measure_costs) -> None:
        super().__init__(view)
        self._lab, self._measure = view.lab, measure
        self._known: dict[int, tuple[CostPoint, ...]] = {}
        self._thread: MeasuringThread | None = None
        self._is_watched = False
        when(self, self._show, view.lab.changed)

    @property
    def is_busy(self) -> bool:
        """Whether something is being measured."""
        return self._thread is not None

    @Slot()
    def look(self) -> None:
        """The lab is seen: measure what is missing."""
        self._is_watched = True
        self._show()

    @Slot()
    def leave(self) -> None:
        """The lab is no longer seen: stop."""
        self._is_watched = False
        self._stop()

    @Slot()
    def measure_again(self) -> None:
        """Forget what was measured at this width."""
        self._known.pop(self._lab.choice.d_model, None)
        self._stop()
        self._show()

    def _show(self) -> None:
        choice = self._lab.choice
        known = self._known.get(choice.d_model, ())
        if choice.points != known:
            self._lab.choose(replace(choice, points=known))
            return
        if self._thread is not None and self._thread.d_model != choice.d_model:
            self._stop()
        if self._is_watched and self._thread is None and len(known) < len(MEASURED):
            self._known[choice.d_model] = ()
            self._thread = MeasuringThread(choice.d_model, self._measure, self)
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
    def _on_measured(self, point: CostPoint) -> None:
        if self.sender() is not self._thread:
            return
        self._known[point.d_model] = (*self._known.get(point.d_model, ()), point)
        self._show()

    @Slot()
    def _on_finished(self) -> None:
        if self.sender() is self._thread:
            self._stop()


def make_cost_view(
    lab: Lab[CostChoice, LengthCosts], measure: Measure = measure_costs
) -> LabView[CostChoice, LengthCosts]:
    """The lab with its meter, a child called `meter`, and the button that measures anew, `again`."""
    view = LabView(lab)
    meter = CostMeter(view, measure)
    meter.setObjectName("meter")
    view.looked_at.connect(meter.look)
    view.left.connect(meter.leave)
    button = view.add_button(
        "Measure again", "Time both on this computer with numpy, the best of three runs for each length"
    )
    button.setObjectName("again")
    button.clicked.connect(meter.measure_again)
    return view
