"""What a resume needs beside the weights, in one safetensors file of their folder (never a pickle).

The tensors are the optimiser's memory; the header names the step, the data and the weights they belong
to. Random states need no saving: every draw of step n comes from the pair (seed, n).
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from torch import Tensor

from attnscope.errors import LoadError
from attnscope.trace.tensor_file import read_shapes, read_tensors, write_tensors

_KEY = "attnscope"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingState:
    """Where a run stands; `weights_sha256` is of the checkpoint's weights file."""

    step: int
    data_sha256: str
    weights_sha256: str
    version: str


def save_state(path: Path, state: TrainingState, tensors: Mapping[str, Tensor]) -> None:
    """Write the state in one step; raises SaveError and leaves the old one when that fails."""
    write_tensors(path, tensors, {_KEY: json.dumps(asdict(state))})


def load_state(path: Path, *, has_values: bool = True) -> tuple[TrainingState, dict[str, Tensor]]:
    """Read what `save_state` wrote; raises LoadError when it is missing or damaged.

    Without values the tensors hold whatever the memory held, and cost none until they are written to: for a
    process that gets its parts of them from another one. Numbers without an axis are always read.
    """
    try:
        file = read_tensors(path) if has_values else read_shapes(path)
        values = json.loads(file.metadata[_KEY])
        state = TrainingState(
            step=int(values["step"]),
            data_sha256=str(values["data_sha256"]),
            weights_sha256=str(values["weights_sha256"]),
            version=str(values["version"]),
        )
    except (LoadError, OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise LoadError(
            f"The run cannot be resumed: {path} is {'damaged' if path.exists() else 'missing'}.",
            kind="state",
            expected="the file that training saves with its checkpoints",
            action="Open one of the run's checkpoints instead, or start a new run in another folder.",
        ) from error
    return state, dict(file.tensors)
