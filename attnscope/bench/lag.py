"""How late the window's event loop is while the worker trains or traces: a 5 ms timer, its lateness."""

import tempfile
import time
from pathlib import Path

from PySide6.QtCore import QObject, Qt, QTimer, Slot

from attnscope.app import Program
from attnscope.bench.report import Measurement, spread
from attnscope.bench.window import open_program, turn_loop
from attnscope.errors import UserError

DURATION_S = 8.0
INTERVAL_MS = 5
TARGET_MS = 16.0
RECIPE = """
[model]
d_model = 128
n_layers = 4
n_heads = 4
d_ff = 512
max_tokens = 64

[data]
kind = "task"
task = "induction"

[objective]
kind = "causal"

[training]
name = "lag"
n_steps = 100000
batch_size = 12
evaluate_every = 200
save_every = 1000
"""


class LagProbe(QObject):
    """A timer that notes how much later than wished it was called, and what its thread did meanwhile.

    `work_ms` is the processor time of the window's own thread in each turn: unlike the lag it does not
    grow when other programs take the processor.
    """

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.lags_ms: list[float] = []
        self.work_ms: list[float] = []
        self._due_s = 0.0
        self._worked_s = 0.0
        self._timer = QTimer(self, interval=INTERVAL_MS, timerType=Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._on_timeout)

    def start(self) -> None:
        """Begin to note."""
        self.lags_ms.clear()
        self.work_ms.clear()
        self._worked_s = time.thread_time()
        self._due_s = time.perf_counter() + INTERVAL_MS / 1e3
        self._timer.start()

    def stop(self) -> None:
        """Note no more."""
        self._timer.stop()

    @Slot()
    def _on_timeout(self) -> None:
        now_s = time.perf_counter()
        self.lags_ms.append(max(0.0, (now_s - self._due_s) * 1e3))
        self._due_s = now_s + INTERVAL_MS / 1e3
        worked_s = time.thread_time()
        self.work_ms.append((worked_s - self._worked_s) * 1e3)
        self._worked_s = worked_s


def measure_lag(duration_s: float = DURATION_S) -> tuple[Measurement, ...]:
    """Lateness in ms with the worker idle, tracing all the time, and training."""
    results: list[Measurement] = []
    # The program ends first: a run in training saves itself into the folder.
    with tempfile.TemporaryDirectory(prefix="attnscope-lag-") as folder, open_program() as program:
        probe = LagProbe(program)
        results += watch(probe, "idle", duration_s / 2, target_ms=None)
        tracing = _Tracing(program)
        results += watch(probe, "tracing", duration_s, target_ms=TARGET_MS)
        tracing.stop()
        _start_training(program, Path(folder) / "run")
        results += watch(probe, "training", duration_s, target_ms=TARGET_MS)
        probe.deleteLater()
    return tuple(results)


def watch(
    probe: LagProbe, name: str, duration_s: float, *, target_ms: float | None
) -> tuple[Measurement, ...]:
    """Turn the event loop for a while and say how late it was, and how long its turns took."""
    probe.start()
    turn_loop(duration_s)
    probe.stop()
    targets = {} if target_ms is None else {99: target_ms}
    lags = spread(
        f"event-loop lag, {name}", probe.lags_ms, "ms", targets=targets, percentiles=(50, 95, 99, 100)
    )
    note = "processor time"
    return lags + spread(f"work of a turn, {name}", probe.work_ms, "ms", percentiles=(99, 100), note=note)


class _Tracing(QObject):
    """Asks for another trace whenever one is shown."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._program = program
        self._text = program.session.text
        self._n = 0
        self._end_listening = program.session.subscribe(self._on_changed)
        self._type()

    def stop(self) -> None:
        """Let the last trace be the last."""
        self._end_listening()

    def _on_changed(self, name: str) -> None:
        if name == "traced" and not self._program.session.is_stale:
            QTimer.singleShot(0, self, self._type)

    @Slot()
    def _type(self) -> None:
        self._n += 1
        self._program.session.set_text(self._text + " a" * (self._n % 4))


def _start_training(program: Program, out: Path) -> None:
    program.window.view.show_page("train")
    program.training.recipe.edit(RECIPE)
    program.training.place.choose(str(out))
    program.training.start()
    wait_for_steps(program)


def wait_for_steps(program: Program) -> None:
    """Turn the event loop until the run makes steps; raises UserError when it does not start."""
    for _ in range(60):
        turn_loop(0.5)
        if program.training.step > 0:
            return
        if program.training.status.phase == "failed":
            break
    raise UserError(f"The run did not start: {program.training.status.detail}")
