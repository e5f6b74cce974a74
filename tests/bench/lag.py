"""How late the window's event loop is while the worker trains or traces: a 5 ms timer, its lateness."""

import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from PySide6.QtCore import QObject, Qt, QTimer, Slot

from attnscope.app import Program
from attnscope.errors import UserError
from bench.report import Measurement, percentile, worst_of
from bench.window import open_program, turn_loop

DURATION_S = 4.0
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


def measure_lag(duration_s: float = DURATION_S) -> Iterator[Measurement]:
    """Lateness in ms while the worker traces all the time, and while it trains."""
    # The program ends first: a run in training saves itself into the folder.
    with tempfile.TemporaryDirectory(prefix="attnscope-lag-") as folder, open_program() as program:
        probe = LagProbe(program)
        tracing = _Tracing(program)
        yield watch(probe, "tracing", duration_s)
        tracing.stop()
        _start_training(program, Path(folder) / "run")
        yield watch(probe, "training", duration_s)
        probe.deleteLater()


def watch(probe: LagProbe, name: str, duration_s: float) -> Measurement:
    """Turn the event loop for a while and say how late it was, and how long its turns took."""
    probe.start()
    turn_loop(duration_s)
    probe.stop()
    return lag_row(name, probe.lags_ms, f"processor time of a turn p99 {percentile(probe.work_ms, 99):.1f}")


def lag_row(name: str, lags_ms: Sequence[float], note: str = "") -> Measurement:
    """How late the event loop was."""
    return worst_of(f"event-loop lag, {name}", lags_ms, "ms", q=99, target=TARGET_MS, note=note)


class _Tracing(QObject):
    """Asks for another trace whenever one is shown."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._program = program
        self._text = program.session.text
        self._n = 0
        program.session.changed.traced.connect(self._on_traced)
        self._type()

    def stop(self) -> None:
        """Let the last trace be the last."""
        self._program.session.changed.traced.disconnect(self._on_traced)

    def _on_traced(self) -> None:
        if not self._program.session.tracing.is_stale:
            QTimer.singleShot(0, self, self._type)

    @Slot()
    def _type(self) -> None:
        self._n += 1
        self._program.session.texts.set_text(self._text + " a" * (self._n % 4))


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
        if program.training.run.step > 0:
            return
        if program.training.run.status.phase == "failed":
            break
    raise UserError(f"The run did not start: {program.training.run.status.detail}")
