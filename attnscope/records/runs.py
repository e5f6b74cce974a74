"""Training runs seen from outside: followed while another process writes them, and many side by side.

Nothing here needs the process that trains: all of it is read from run folders.
"""

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnscope.records.arrays import frozen_array
from attnscope.records.requests import Reply, Request
from attnscope.records.training import TrainingEvent

RunEnd = Literal["done", "stopped", "diverged", "out-of-memory", "running", "broken off"]
"""How a run ended; `broken off` when nobody writes it any more and it never said that it ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWriter:
    """The process that writes a run folder: its id, its computer, and since when (seconds since 1970).

    `is_here` says whether it runs on this computer; `silent_s` is how long ago the folder last changed.
    """

    pid: int
    host: str
    since: float
    is_here: bool
    silent_s: float

    @property
    def words(self) -> str:
        """For people: `process 4711 on this computer`."""
        return f"process {self.pid} on {'this computer' if self.is_here else self.host}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMark:
    """How far a run's metrics were read: the place, what stood right before it, the last attempt."""

    n_bytes: int = 0
    before: bytes = b""
    attempt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowRun(Request):
    """What happened in a run folder since `mark` (the beginning, when left out); ask some times a second.

    Nothing is kept between two requests, so that to stop following is to stop asking.
    """

    is_view = True
    folder: str
    mark: RunMark = field(default_factory=RunMark)

    @property
    def place(self) -> str:
        """Each folder is followed by itself."""
        return self.folder


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNews(Reply):
    """What a run folder says that is new; ask for more with `mark`.

    With `is_restart` everything told before is to be forgotten: these are the first news, or the file was
    replaced. `recipe` is told with a restart only, and is empty while the run has none. `checkpoints` are
    the new ones, as (step, folder), `probes` the looks at the watched sentences, as (step, file). With
    `has_more` another RunNews of the same number follows at once. `writer` is None when no process writes
    the folder.
    """

    folder: str
    events: tuple[TrainingEvent, ...]
    checkpoints: tuple[tuple[int, str], ...]
    mark: RunMark
    writer: RunWriter | None
    recipe: str = ""
    is_restart: bool = False
    has_more: bool = False
    n_bad_lines: int = 0
    probes: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLines:
    """The losses of a run at display size: `steps` ascending, `values` in nats, both [n]."""

    steps: NDArray[np.float64]
    values: NDArray[np.float64]

    def __post_init__(self) -> None:
        for name in ("steps", "values"):
            array = frozen_array(getattr(self, name), dtype=np.float64, rank=1, name=name)
            object.__setattr__(self, name, array)
        if self.steps.shape != self.values.shape:
            raise ValueError(f"{len(self.steps)} steps for {len(self.values)} values")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One run among several.

    `name` is short and differs from the others'. `n_body` counts the parameters without embeddings, and is 0
    when unknown. Losses are in nats, over what `objective` says; `last_loss`, `best_loss` and `last_accuracy`
    are of held-out data, NaN without any. `n_tokens` were read in training, padding included; `flops` is what
    that costs on paper; `seconds` is the time of the steps alone; each NaN when unknown. `training` is
    smoothed by means of neighbouring steps where there were too many. `settings` are the values of the
    recipe's keys that differ among the runs read together, as (key, value).
    """

    folder: str
    name: str
    end: RunEnd
    step: int
    n_steps: int
    n_parameters: int
    n_body: int
    last_loss: float
    best_loss: float
    best_step: int
    n_tokens: float
    flops: float
    seconds: float
    training: RunLines
    validation: RunLines
    recipe: str
    settings: tuple[tuple[str, str], ...] = ()
    note: str = ""
    device: str = ""
    writer: RunWriter | None = None
    objective: str = ""
    last_accuracy: float = math.nan

    @property
    def is_converged(self) -> bool:
        """Whether it made all its steps and its held-out loss is known: only such runs are fitted."""
        return self.end == "done" and math.isfinite(self.best_loss)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRuns(Request):
    """Read several runs: each folder is a run, or a folder whose children are runs. Newest wins."""

    is_view = True
    folders: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsOpened(Reply):
    """The runs an OpenRuns asked for, by name; `left_out` says which folders are no runs, and why."""

    folders: tuple[str, ...]
    runs: tuple[RunSummary, ...]
    left_out: tuple[str, ...] = ()
