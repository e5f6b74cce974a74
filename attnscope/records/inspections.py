"""Looks into single steps of a training run: how large updates and gradients were, layer by layer.

| field          | meaning                                                     | shape       |
|----------------|-------------------------------------------------------------|-------------|
| layers         | names such as `tokens`, `encoder L0`, `head`                | [n_layers]  |
| gradient_norms | norm of each layer's gradient before clipping               | [n_layers]  |
| update_norms   | norm of what each layer's weights changed by                | [n_layers]  |
| update_counts  | weights whose change lies in each bin                       | [n_bins]    |
| moved_norms    | ‖θ_t − θ_0‖ of each layer since the run's first weights     | [n_layers]  |
| norms          | names of the norms, such as `encoder L0 attention`          | [n_norms]   |
| norm_inputs    | root mean square of what each norm reads, over all tokens   | [n_norms]   |

In a history each field has one more axis at its end: the steps that were looked at.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnscope.records.arrays import frozen_array
from attnscope.records.requests import Reply, Request

Numbers = NDArray[np.float64]

UPDATE_BINS: tuple[float, ...] = tuple(-9 + i / 5 for i in range(51))
"""Edges of the bins: log10 of a weight's change, 1e-9 to 10; the first and last take what lies beyond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """One inspected step; `n_still` weights in training did not change at all and are in no bin.

    `moved_norms` are those after the step; empty where the first weights are not known. Norms read the batch
    of the step, its padding included; there are none where the loss is compiled.
    """

    step: int
    learning_rate: float
    layers: tuple[str, ...]
    gradient_norms: tuple[float, ...]
    update_norms: tuple[float, ...]
    update_counts: tuple[int, ...]
    n_still: int
    moved_norms: tuple[float, ...] = ()
    norms: tuple[str, ...] = ()
    norm_inputs: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectionHistory:
    """What was looked at in a run, at display size: NaN where a layer was not in training at a step.

    `steps`, `learning_rates` and `n_still` are [n_steps], steps ascending; `gradient_norms` and
    `update_norms` and `moved_norms` [n_layers, n_steps]; `update_counts` [n_bins, n_steps]; `norm_inputs`
    [n_norms, n_steps]. `n_steps_seen` were looked at, of which these are an even choice with the first and
    the last.
    """

    steps: Numbers
    learning_rates: Numbers
    n_still: Numbers
    layers: tuple[str, ...]
    gradient_norms: Numbers
    update_norms: Numbers
    update_counts: Numbers
    moved_norms: Numbers
    norms: tuple[str, ...]
    norm_inputs: Numbers
    n_steps_seen: int

    def __post_init__(self) -> None:
        by_step = ("steps", "learning_rates", "n_still")
        by_layer = ("gradient_norms", "update_norms", "update_counts", "moved_norms", "norm_inputs")
        for name in (*by_step, *by_layer):
            rank = 1 if name in by_step else 2
            array = frozen_array(getattr(self, name), dtype=np.float64, rank=rank, name=name)
            object.__setattr__(self, name, array)
            if array.shape[-1] != len(self.steps):
                raise ValueError(f"{name}: {array.shape[-1]} entries for {len(self.steps)} steps")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowInspections(Request):
    """What was looked at in a run's steps; `seen` is the `version` that is known already. Newest wins."""

    is_view = True
    folder: str
    seen: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectionsShown(Reply):
    """The inspections of a run folder; `history` is None where the run has none, or none that is new.

    `version` is 0 for a run without any.
    """

    folder: str
    version: int
    history: InspectionHistory | None
