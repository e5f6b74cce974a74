"""inspections.jsonl of a run folder: every so many steps, how large updates and gradients were (C39).

The histogram of Adam's updates is what Liu et al. 2020 (figure 2) explain warm-up with, the gradients'
norms by layer what Xiong et al. 2020 (figure 3) do. Looking changes nothing; it costs one copy of the
weights in training for the step that is looked at.
"""

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from torch import Tensor, nn

from attnscope.codec import Caps, Codec
from attnscope.errors import LoadError
from attnscope.nn.precision import exact
from attnscope.outside import open_outside, open_to_append
from attnscope.records.inspections import UPDATE_BINS, Inspection, InspectionHistory, Numbers

FILE = "inspections.jsonl"
_MAX_BYTES = 2**30
_CODEC = Codec(caps=Caps(whole=2**53, number=math.inf))
MOST_STEPS = 400
_PIECE_BYTES = 128_000
"""About 200 steps: a piece of work after which the window's other requests have their turn."""
_BEFORE_BYTES = 200


class Inspector:
    """Looks at every n-th step of a run and notes it in the run folder; a full disk is no reason to stop."""

    def __init__(self, module: nn.Module, folder: Path, every: int) -> None:
        self._parameters = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
        self._path, self._every = folder / FILE, every

    @contextmanager
    def looking_at(self, step: int, learning_rate: float, gradient_norm: float) -> Iterator[None]:
        """Around the optimiser's step; `gradient_norm` is that of all weights before clipping."""
        if not self._every or step % self._every:
            yield
            return
        before = [p.detach().clone() for _, p in self._parameters]
        layers = [layer_of(name) for name, _ in self._parameters]
        gradients = _norms(layers, [p.grad for _, p in self._parameters])
        after_clipping = math.sqrt(sum(value**2 for value in gradients.values()))
        scale = gradient_norm / after_clipping if after_clipping else 0.0
        yield
        with torch.no_grad():
            changes = [p.detach() - old for (_, p), old in zip(self._parameters, before, strict=True)]
        counts, n_still = count_updates(changes)
        updates = _norms(layers, changes)
        self._add(
            Inspection(
                step=step,
                learning_rate=learning_rate,
                layers=tuple(gradients),
                gradient_norms=tuple(scale * value for value in gradients.values()),
                update_norms=tuple(updates.values()),
                update_counts=counts,
                n_still=n_still,
            )
        )

    def _add(self, inspection: Inspection) -> None:
        line = json.dumps(_CODEC.write(inspection), allow_nan=False)
        try:
            with open_to_append(self._path) as stream:
                stream.write(f"{line}\n".encode())
        except OSError:
            pass


def _open_inspections(folder: Path) -> BinaryIO:
    """The inspections of a run folder, open for reading; raises LoadError."""
    return open_outside(folder / FILE, expected="the inspections of a run", max_bytes=_MAX_BYTES)


def read_inspections(folder: Path) -> tuple[Inspection, ...]:
    """What was noted in a run folder, by step; where a run was resumed, the later look counts.

    Lines that are cut short or of another kind are passed over, as is a file that is not there.
    """
    try:
        with _open_inspections(folder) as stream:
            lines = stream.read().splitlines()
    except (OSError, LoadError):
        return ()
    found: list[Inspection] = []
    _take_lines(found, lines)
    return tuple(found)


def layer_of(name: str) -> str:
    """The layer a parameter belongs to, as people name it: `encoder.0.attention…` is `encoder L0`."""
    first, _, rest = name.partition(".")
    second = rest.partition(".")[0]
    return f"{first} L{second}" if second.isdigit() else first.replace("_", " ")


def count_updates(changes: list[Tensor]) -> tuple[tuple[int, ...], int]:
    """How many weights changed by as much as each bin of `UPDATE_BINS` says, and how many did not."""
    n_bins, first, step = len(UPDATE_BINS) - 1, UPDATE_BINS[0], UPDATE_BINS[1] - UPDATE_BINS[0]
    counts, n_still = torch.zeros(n_bins, dtype=torch.int64), 0
    for change in changes:
        sizes = change.detach().cpu().abs().flatten()
        moved = sizes[sizes > 0]
        n_still += len(sizes) - len(moved)
        bins = ((moved.double().log10() - first) / step).floor().clamp(0, n_bins - 1).long()
        counts += torch.bincount(bins, minlength=n_bins)
    return tuple(counts.tolist()), n_still


def _take_lines(found: list[Inspection], lines: list[bytes]) -> None:
    """Append what the lines say; what a run did again counts instead of what it had done before."""
    for line in lines:
        inspection = _from_line(line)
        if inspection is not None:
            while found and found[-1].step >= inspection.step:
                found.pop()
            found.append(inspection)


def _norms(layers: list[str], tensors: list[Tensor | None] | list[Tensor]) -> dict[str, float]:
    """The norm of each layer's tensors, in the order of the layers."""
    squares: dict[str, float] = dict.fromkeys(layers, 0.0)
    for layer, tensor in zip(layers, tensors, strict=True):
        if tensor is not None:
            squares[layer] += float(exact(tensor.detach()).square().sum())
    return {layer: math.sqrt(value) for layer, value in squares.items()}


def _from_line(line: bytes) -> Inspection | None:
    try:
        inspection = _CODEC.read(Inspection, json.loads(line))
    except (ValueError, RecursionError):
        return None
    n_layers = len(inspection.layers)
    is_whole = len(inspection.gradient_norms) == len(inspection.update_norms) == n_layers
    is_whole &= len(inspection.update_counts) == len(UPDATE_BINS) - 1
    return inspection if is_whole else None


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
            with _open_inspections(folder) as stream:
                stream.seek(self._n_bytes - len(self._before))
                if stream.read(len(self._before)) != self._before:
                    self._begin(folder)
                    stream.seek(0)
                while lines := stream.readlines(_PIECE_BYTES):
                    if not lines[-1].endswith(b"\n"):
                        lines.pop()
                    if not lines:
                        return
                    _take_lines(self._found, lines)
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
