"""Several runs as a table for people and as values for machines."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from attnscope.counting import duration_text, fixed
from attnscope.records.training import loss_unit

if TYPE_CHECKING:
    from attnscope.records.runs import RunSummary  # brings numpy, which --help need not wait for

_HEADINGS = (
    *("run", "step", "validation", "best", "at step"),
    *("parameters", "tokens", "operations", "time", "end"),
)
_TOLD = (
    *("folder", "name", "end", "step", "n_steps", "n_parameters", "n_body", "last_loss", "best_loss"),
    *("best_step", "n_tokens", "flops", "seconds", "note", "objective"),
)


def table_of_runs(runs: "Sequence[RunSummary]") -> str:
    """One line for each run, the lowest held-out loss first, and what losses are in."""
    ranked = sorted(runs, key=lambda run: (not math.isfinite(run.best_loss), run.best_loss, run.name))
    rows = [_HEADINGS, *map(_cells, ranked)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADINGS))]
    lines = [
        "  ".join(
            cell.ljust(width) if i in (0, len(widths) - 1) else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([*lines, f"Losses are in {loss_unit(run.objective for run in runs)}."])


def values_of_runs(runs: "Sequence[RunSummary]") -> list[dict[str, object]]:
    """Every run without its curves and its recipe."""
    return [
        {
            **{name: getattr(run, name) for name in _TOLD},
            "loss_unit": loss_unit([run.objective]),
            "settings": dict(run.settings),
        }
        for run in runs
    ]


def _cells(run: "RunSummary") -> tuple[str, ...]:
    return (
        run.name,
        f"{run.step:,}" if run.step == run.n_steps else f"{run.step:,} of {run.n_steps:,}",
        fixed(run.last_loss, 4),
        fixed(run.best_loss, 4),
        f"{run.best_step:,}",
        f"{run.n_parameters:,}",
        _large(run.n_tokens),
        _large(run.flops),
        _time(run.seconds),
        run.end,
    )


def _large(value: float) -> str:
    return f"{value:.2e}".replace("e+", "e") if math.isfinite(value) else "–"


def _time(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "–"
    return duration_text(seconds)
