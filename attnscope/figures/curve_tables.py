"""Pruning curves as CSV."""

import csv
import io
from collections.abc import Sequence

from attnscope.records.importance import PruningCurve
from attnscope.records.sites import Gates


def csv_of_curves(curves: Sequence[PruningCurve]) -> str:
    """One line for each point; the heads that are off as `encoder:L0H1 …`."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("ranking", "is_rescored", "seed", "metric", "n_removed", "value", "low", "high", "off"))
    for curve in curves:
        for point in curve.points:
            row = (curve.ranking, curve.is_rescored, curve.seed, curve.metric, point.n_removed)
            writer.writerow((*row, point.value, point.low, point.high, off_text(point.gates)))
    return out.getvalue()


def off_text(gates: Gates) -> str:
    """The heads that are off, as --gate names them."""
    return " ".join(f"{head.stack}:{head.label}" for head in gates.off())
