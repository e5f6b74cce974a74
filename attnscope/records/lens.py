"""What each layer would say if it were the last.

| symbol      | meaning                                               | shape                    |
|-------------|-------------------------------------------------------|--------------------------|
| probability | that the layer gives to the model's own first token   | [n_levels, n_positions]  |
| rank        | place of that token in the layer's list, from 0       | [n_levels, n_positions]  |
| kl_nats     | KL(output ‖ layer)                                    | [n_levels, n_positions]  |
| entropy     | of what the layer says, nats                          | [n_levels, n_positions]  |
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnscope.records.arrays import frozen_array
from attnscope.records.interventions import Interventions
from attnscope.records.outputs import Candidate
from attnscope.records.requests import Reply, Request
from attnscope.records.sites import NO_GATES, Gates, Stack
from attnscope.records.tokens import Token


@dataclass(frozen=True, slots=True, kw_only=True)
class LensTable:
    """The logit lens on one text: level 0 is the input of layer 0, level l + 1 the output of layer l.

    `candidates[level][column]` are the most probable tokens, most probable first; `positions` are the places
    of the columns in the text.
    """

    stack: Stack
    levels: tuple[str, ...]
    positions: tuple[int, ...]
    tokens: tuple[Token, ...]
    candidates: tuple[tuple[tuple[Candidate, ...], ...], ...]
    probability: NDArray[np.float32]
    rank: NDArray[np.int32]
    kl_nats: NDArray[np.float32]
    entropy: NDArray[np.float32]

    def __post_init__(self) -> None:
        shape = (len(self.levels), len(self.positions))
        for name, dtype in (
            ("probability", np.float32),
            ("rank", np.int32),
            ("kl_nats", np.float32),
            ("entropy", np.float32),
        ):
            array = frozen_array(getattr(self, name), dtype=dtype, rank=2, name=name)
            if array.shape != shape:
                raise ValueError(f"{name} is {array.shape}, expected {shape}")
            object.__setattr__(self, name, array)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowLens(Request):
    """Look at every layer of the open model through the lens; of long texts the last `max_positions`.

    `target` None lets a sequence-to-sequence model write its own. Newest wins.
    """

    is_view = True
    needs_model = "The lens"
    text: str
    target: str | None = None
    gates: Gates = NO_GATES
    interventions: Interventions = ()
    n_candidates: int = 5
    max_positions: int = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class LensShown(Reply):
    """The table a ShowLens asked for."""

    table: LensTable
