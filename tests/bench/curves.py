"""How long the curves of ten long runs take to be drawn again, against steps, tokens read and time."""

from collections.abc import Iterator

import numpy as np
from PySide6.QtWidgets import QApplication, QCheckBox

from attnscope.app import make_application
from attnscope.viewmodels.training import AXES, Axis, RunAxis, RunCurves, ShownRun
from attnscope.widgets import ChoiceButton
from attnscope.widgets.training import CurvesView
from bench.frames import measure_frames, show_and_wait
from bench.report import Measurement

N_RUNS, N_STEPS, N_FRAMES = 10, 100_000, 20
TARGET_MS = 30.0
_MEASURED: tuple[Axis, ...] = ("step", "tokens", "time")


def measure_curves(
    n_frames: int = N_FRAMES, n_runs: int = N_RUNS, n_steps: int = N_STEPS
) -> Iterator[Measurement]:
    """Milliseconds to work out every plot anew, their painting aside, on each axis."""
    make_application()
    shown = tuple(made_up_run(index, n_steps) for index in range(n_runs))
    view = CurvesView(lambda: shown)
    view.resize(1100, 700)
    show_and_wait(view)
    log = view.bar.findChildren(QCheckBox)[0]
    for axis in _MEASURED:
        view.bar.findChildren(ChoiceButton)[0].chosen.emit(axis)
        QApplication.processEvents()
        yield measure_frames(
            f"{n_runs} runs of {n_steps:,} steps drawn again, by {AXES[axis]}",
            lambda index: log.toggle(),
            lambda: None,
            n_frames,
            target_ms=TARGET_MS,
        )
        QApplication.processEvents()
    view.close()
    view.deleteLater()


def made_up_run(seed: int, n_steps: int) -> ShownRun:
    """A run whose loss falls noisily, looked at 200 times."""
    random = np.random.default_rng(seed)
    steps = np.arange(1, n_steps + 1, dtype=np.float64)
    curves = RunCurves()
    curves.train_loss.extend(steps, 4.0 / np.sqrt(steps) + 0.1 * random.random(n_steps))
    looks = steps[:: max(1, n_steps // 200)]
    curves.validation_loss.extend(looks, 4.1 / np.sqrt(looks))
    for curve, level in (
        (curves.learning_rate, 1e-3),
        (curves.gradient_norm, 1.0),
        (curves.tokens_per_s, 2e4),
        (curves.step_tokens, 768.0),
    ):
        curve.extend(steps, level * (1 + 0.1 * random.random(n_steps)))
    return ShownRun(folder=f"run{seed}", name=f"run{seed}", colour=seed, curves=curves, axis=RunAxis(curves))
