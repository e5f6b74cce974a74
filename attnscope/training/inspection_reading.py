"""The inspections of a run folder as they grow, cut to display size: only what was appended is read."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from attnscope.errors import LoadError
from attnscope.records.inspections import Inspection, InspectionHistory, Numbers
from attnscope.training.inspections import open_inspections, take_lines

MOST_STEPS = 400
_PIECE_BYTES = 128_000
"""About 200 steps: a piece of work after which the window's other requests have their turn."""
_BEFORE_BYTES = 200


class InspectionsReader:
    """Knows what was read of one run folder; another folder, or a file that was replaced, begins anew."""

    def __init__(self) -> None:
        self._folder, self._n_bytes, self._before = Path(), 0, b""
        self._found: list[Inspection] = []

    @property
    def version(self) -> int:
        """Changes whenever something was read; 0 while there is nothing."""
        return self._n_bytes

    def read(self, folder: Path) -> Iterator[None]:
        """Read what is new in `folder`, a piece at a time; a file that is not there is an empty one."""
        if folder != self._folder:
            self._begin(folder)
        try:
            with open_inspections(folder) as stream:
                stream.seek(self._n_bytes - len(self._before))
                if stream.read(len(self._before)) != self._before:
                    self._begin(folder)
                    stream.seek(0)
                while lines := stream.readlines(_PIECE_BYTES):
                    if not lines[-1].endswith(b"\n"):
                        lines.pop()
                    if not lines:
                        return
                    take_lines(self._found, lines)
                    self._n_bytes += sum(map(len, lines))
                    self._before = (self._before + b"".join(lines))[-_BEFORE_BYTES:]
                    yield
        except (OSError, LoadError):
            self._begin(folder)

    def history(self) -> InspectionHistory | None:
        """What was read; None where there is nothing."""
        return history_of(self._found)

    def _begin(self, folder: Path) -> None:
        self._folder, self._n_bytes, self._before = folder, 0, b""
        self._found = []


def history_of(found: Sequence[Inspection]) -> InspectionHistory | None:
    """At most `MOST_STEPS` of the inspections, evenly chosen, first and last among them; None for none."""
    if not found:
        return None
    n = len(found)
    places = np.linspace(0, n - 1, min(n, MOST_STEPS)).round().astype(int).tolist()
    shown = [found[i] for i in places]
    layers = tuple(dict.fromkeys(layer for look in shown for layer in look.layers))
    return InspectionHistory(
        steps=_row([look.step for look in shown]),
        learning_rates=_row([look.learning_rate for look in shown]),
        n_still=_row([look.n_still for look in shown]),
        layers=layers,
        gradient_norms=_by_layer(layers, [dict(zip(s.layers, s.gradient_norms, strict=True)) for s in shown]),
        update_norms=_by_layer(layers, [dict(zip(s.layers, s.update_norms, strict=True)) for s in shown]),
        update_counts=np.array([look.update_counts for look in shown], dtype=np.float64).T,
        n_steps_seen=n,
    )


def _row(values: Sequence[float]) -> Numbers:
    return np.array(values, dtype=np.float64)


def _by_layer(layers: tuple[str, ...], looks: list[dict[str, float]]) -> Numbers:
    rows = [[look.get(layer, np.nan) for look in looks] for layer in layers]
    return np.array(rows, dtype=np.float64).reshape(len(layers), len(looks))
