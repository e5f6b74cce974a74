"""inspections.jsonl of a run folder: every so many steps, how large updates and gradients were (C39).

The histogram of Adam's updates is what Liu et al. 2020 (figure 2) explain warm-up with, the gradients'
norms by layer what Xiong et al. 2020 (figure 3) do. How far the weights have come from the first ones, and
how large the inputs of the norms are, is what Wang et al. 2022 (DeepNet, figure 3) ask of deep models: a norm
divides its gradient by the size of its input, ‖∂LN(x)/∂x‖ = O(√d / ‖x‖). Looking changes nothing; it costs a
copy of the first weights, and one more for the step that is looked at.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

import numpy as np
import torch
from torch import Tensor, nn

from attnscope.codec import Caps, Codec
from attnscope.errors import LoadError
from attnscope.models.checkpoint import read_model_folder
from attnscope.nn.computing import exact
from attnscope.nn.layers import Norm
from attnscope.outside import open_outside, open_to_append
from attnscope.records.runs import UPDATE_BINS, Inspection, InspectionHistory, Numbers
from attnscope.training.run import RunFolder

FILE = "inspections.jsonl"
_MAX_BYTES = 2**30
_CODEC = Codec(caps=Caps(whole=2**53, number=math.inf))
MOST_STEPS = 400
_PIECE_BYTES = 128_000
"""About 200 steps: a piece of work after which the window's other requests have their turn."""
_BEFORE_BYTES = 200


class Inspector:
    """Looks at every n-th step of a run and notes it in the run folder; a full disk is no reason to stop.

    The weights that the module has when this is made are the first ones, but for those that `first` names,
    which a resumed run began with; with `first` None some of them are not known.
    """

    def __init__(
        self,
        module: nn.Module,
        folder: Path,
        every: int,
        first: Mapping[str, Tensor] | None = MappingProxyType({}),
    ) -> None:
        self._parameters = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
        self._path, self._every = folder / FILE, every
        self._first: list[Tensor] = []
        if every and first is not None:
            found = [(p, first.get(name)) for name, p in self._parameters]
            self._first = [(p.detach() if old is None else old.to(p)).clone() for p, old in found]
        named = module.named_modules()
        self._norms = [(name, m) for name, m in named if isinstance(m, Norm) and not m.scheme.is_nothing]
        self._inputs: dict[str, list[tuple[Tensor, int]]] = {}

    @contextmanager
    def reading(self, step: int) -> Iterator[None]:
        """Around the forward passes of a step: what norms read is measured where the step is looked at."""
        self._inputs = {}
        if not self._every or step % self._every:
            yield
            return
        handles = []
        for name, norm in self._norms:
            parts = self._inputs.setdefault(norm_name(name), [])
            handles.append(norm.register_forward_pre_hook(_Measure(parts)))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

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
            now = [p.detach() for _, p in self._parameters]
            changes = [new - old for new, old in zip(now, before, strict=True)]
            moved = [new - old for new, old in zip(now, self._first, strict=True)] if self._first else []
        counts, n_still = count_updates(changes)
        updates = _norms(layers, changes)
        inputs = {name: _root_mean_square(parts) for name, parts in self._inputs.items() if parts}
        self._add(
            Inspection(
                step=step,
                learning_rate=learning_rate,
                layers=tuple(gradients),
                gradient_norms=tuple(scale * value for value in gradients.values()),
                update_norms=tuple(updates.values()),
                update_counts=counts,
                n_still=n_still,
                moved_norms=tuple(_norms(layers, moved).values()) if moved else (),
                norms=tuple(inputs),
                norm_inputs=tuple(inputs.values()),
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


def first_weights(folder: RunFolder) -> dict[str, Tensor] | None:
    """The weights that a run began with, by name; None where their checkpoint is gone or damaged."""
    try:
        return read_model_folder(folder.checkpoint(0)).module.state_dict()
    except LoadError:
        return None


def layer_of(name: str) -> str:
    """The layer a parameter belongs to, as people name it: `encoder.0.attention…` is `encoder L0`."""
    first, _, rest = name.partition(".")
    second = rest.partition(".")[0]
    return f"{first} L{second}" if second.isdigit() else first.replace("_", " ")


def norm_name(name: str) -> str:
    """A norm as people name it: `encoder.0.attention_norm` is `encoder L0 attention`."""
    *_, last = name.split(".")
    part = last.removesuffix("_norm").replace("_end", ", after").replace("_", "-")
    return layer_of(name) if "." not in name else f"{layer_of(name)} {part}"


class _Measure:
    """Before a norm: the sum of squares of its input [.., d], and how many numbers that are, into `parts`."""

    def __init__(self, parts: list[tuple[Tensor, int]]) -> None:
        self._parts = parts

    def __call__(self, _norm: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        x = inputs[0].detach()
        self._parts.append((exact(x).square().sum(), x.numel()))


def _root_mean_square(parts: Sequence[tuple[Tensor, int]]) -> float:
    total = math.fsum(float(squares) for squares, _ in parts)
    return math.sqrt(total / sum(n for _, n in parts))


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
    is_whole &= len(inspection.moved_norms) in (0, n_layers)
    is_whole &= len(inspection.norm_inputs) == len(inspection.norms)
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
    norms = tuple(dict.fromkeys(norm for look in shown for norm in look.norms))
    return InspectionHistory(
        steps=_row([look.step for look in shown]),
        learning_rates=_row([look.learning_rate for look in shown]),
        n_still=_row([look.n_still for look in shown]),
        layers=layers,
        gradient_norms=_by_layer(layers, [dict(zip(s.layers, s.gradient_norms, strict=True)) for s in shown]),
        update_norms=_by_layer(layers, [dict(zip(s.layers, s.update_norms, strict=True)) for s in shown]),
        update_counts=np.array([look.update_counts for look in shown], dtype=np.float64).T,
        moved_norms=_by_layer(layers, [dict(zip(s.layers, s.moved_norms, strict=False)) for s in shown]),
        norms=norms,
        norm_inputs=_by_layer(norms, [dict(zip(s.norms, s.norm_inputs, strict=True)) for s in shown]),
        n_steps_seen=n,
    )


def _row(values: Sequence[float]) -> Numbers:
    return np.array(values, dtype=np.float64)


def _by_layer(layers: tuple[str, ...], looks: list[dict[str, float]]) -> Numbers:
    rows = [[look.get(layer, np.nan) for look in looks] for layer in layers]
    return np.array(rows, dtype=np.float64).reshape(len(layers), len(looks))
