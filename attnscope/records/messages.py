"""The window's requests to the worker, and the replies.

Every request has a number. A reply carries the number of its request; the window drops replies to
view requests that are not the newest of their kind. Requests capture all they need.
"""

from dataclasses import dataclass

from attnscope.records.interventions import Edge, Interventions
from attnscope.records.maps import (
    HeadMap,
    HeadMeasures,
    Picture,
    PositionCheck,
    PositionTable,
    SelfCheck,
    SiteGrid,
)
from attnscope.records.models import ModelInfo
from attnscope.records.outputs import Comparison
from attnscope.records.requests import News, Reply, Request
from attnscope.records.runs import TrainingEvent
from attnscope.records.sites import NO_GATES, Gates, HeadRef, SiteKey
from attnscope.records.tokens import Token, Tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenText(Request):
    """Read a text file, up to the length that any model could use. With `tokens` it is an edge list of
    them.
    """

    path: str
    tokens: tuple[Token, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOpened(Reply):
    """A file's text. `n_cut` characters were left out, `n_replaced` bytes were not UTF-8.

    Of an edge list there are the `edges`, or what is wrong with it.
    """

    name: str
    text: str
    n_cut: int = 0
    n_replaced: int = 0
    edges: tuple[Edge, ...] = ()
    fault: str = ""


OPEN_MODEL = ""
"""Names the open model in a request."""
TRAINING_MODEL = "training"
"""Names the model in training in a request; any other name is a checkpoint's folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadModel(Request):
    """Open a model; `source` is whatever `attnscope.load` takes."""

    source: str
    device: str = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceText(Request):
    """Trace one text through a model with and without gates, and show `heads` in full.

    `target` None lets a sequence-to-sequence model write its own. Thumbnails have at most
    `thumbnail_px` cells a side. `past_trained` reads on where the model was never trained, if its
    positions allow it. A `view` is a place of the window that looks at models of its own choice; a target
    is left out there where the model reads none. Newest wins, separately for each `view`, or each `model`
    without one.
    """

    is_view = True
    text: str
    target: str | None = None
    gates: Gates = NO_GATES
    heads: tuple[HeadRef, ...] = ()
    model: str = OPEN_MODEL
    thumbnail_px: int = 96
    n_candidates: int = 8
    past_trained: bool = False
    interventions: Interventions = ()
    view: str = ""

    @property
    def place(self) -> str:
        """Key of its trace: the view, or the model."""
        return self.view or self.model


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowHeads(Request):
    """Show heads of the newest trace of `view` or `model` in full. Newest wins, for each of them.

    Of the trace of the request `trace` alone, unless that is 0: nothing comes once another took its place.
    """

    is_view = True
    heads: tuple[HeadRef, ...]
    model: str = OPEN_MODEL
    view: str = ""
    trace: int = 0

    @property
    def place(self) -> str:
        """Key of the trace: the view, or the model."""
        return self.view or self.model


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowPositions(Request):
    """Compute position tables: any of `sinusoidal`, `learned`, `rotary`, `binary`, `model`.

    `model` is the open model's own encoding. With `has_checks` every position scheme is measured besides.
    Newest wins.
    """

    is_view = True
    names: tuple[str, ...]
    n_positions: int
    d_model: int
    has_checks: bool = False

    @property
    def beyond_recordings(self) -> str:
        """Part of it that only a running model can answer."""
        return "Its positional encoding" if "model" in self.names else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTraining(Request):
    """Train a recipe into the run folder `out`; resumes a run there, which may be lengthened if requested."""

    recipe: str
    out: str
    device: str = "auto"
    base_folder: str = ""
    may_lengthen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlTraining(Request):
    """Pause, resume or stop (save and finish) the run in progress."""

    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRun(Request):
    """Read a run folder: its recipe, its metrics and its list of checkpoints."""

    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveModel(Request):
    """Save the open model to a folder."""

    needs_model = "Saving"
    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready(Reply):
    """The worker has its libraries and can serve; sent once."""

    number: int = 0
    devices: tuple[str, ...]
    demo_models: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLoaded(Reply):
    """A model is open; it replaces the one before."""

    info: ModelInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced(Reply):
    """One text read by one model: all heads as thumbnails, the requested heads in full, the model's output.

    `source` and `target` are the tokens of both texts. `grids` has one entry for each site, in the
    model's order. `measures` covers every head. `comparison` is without gates against with gates; where it
    is being written, an `OutputWritten` follows. Of a trace for a `view`, `info` is its model. While a long
    pass goes on, only the maps of the `known` sites are there, no measure and no output; None: all are. While
    the model writes its own target, `is_target_whole` is False: the target, its rows and its predictions
    are there as far as it is written, and no measure. `picture` is what a model that is trained, or was kept
    by a run, reads where its text names one; that of the open model is asked for by itself (`ShowPicture`).
    """

    model: str
    text: str
    source: Tokens
    target: Tokens | None
    gates: Gates
    grids: tuple[SiteGrid, ...]
    maps: tuple[HeadMap, ...]
    measures: tuple[HeadMeasures, ...]
    comparison: Comparison
    check: SelfCheck
    duration_ms: float
    step: int | None = None
    interventions: Interventions = ()
    view: str = ""
    info: ModelInfo | None = None
    known: frozenset[SiteKey] | None = None
    is_target_whole: bool = True
    picture: Picture | None = None

    @property
    def target_text(self) -> str | None:
        """The second text, where there is one."""
        return None if self.target is None else self.target.text

    @property
    def is_whole(self) -> bool:
        """Whether this is complete, so that no further trace follows under its number."""
        return self.known is None and self.is_target_whole

    def knows(self, site: SiteKey) -> bool:
        return self.known is None or site in self.known

    @property
    def part_words(self) -> str:
        """Note on the part present, if not all is."""
        if self.known is None:
            return "" if self.is_target_whole else "the translation is not complete yet"
        if len(self.known) == len(self.grids):
            return "heads are not measured yet"
        return f"only {len(self.known)} of {len(self.grids)} layers are known"

    @property
    def place(self) -> str:
        """Key of the trace: the view, or the model."""
        return self.view or self.model


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadsShown(Reply):
    """Reply to ShowHeads; `trace` is the number of the trace that it named."""

    model: str
    maps: tuple[HeadMap, ...]
    trace: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionsShown(Reply):
    """Reply to ShowPositions, in its order."""

    tables: tuple[PositionTable, ...]
    checks: tuple[PositionCheck, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingNews(Reply):
    """Events of a run since the last news, at most 20 times a second."""

    events: tuple[TrainingEvent, ...]
    is_paused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOpened(Reply):
    """A run folder's content; checkpoints as (step, folder), kept looks as (step, file), in order.

    `n_bad_lines` lines of its metrics could not be read.
    """

    folder: str
    recipe: str
    events: tuple[TrainingEvent, ...]
    checkpoints: tuple[tuple[int, str], ...]
    probes: tuple[tuple[int, str], ...] = ()
    n_bad_lines: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSaved(Reply):
    """The model is on disk and verified."""

    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress(News):
    """Progress of a long request: `fraction` in 0…1, or None if it cannot be known."""

    what: str
    fraction: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(Reply):
    """A failed request; the session is unchanged.

    `message` says what happened, what was expected and what to do. `crash_log` names the log when
    the fault is the program's own.
    """

    request: str
    message: str
    crash_log: str = ""
