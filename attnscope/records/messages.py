"""What the window asks of the worker, and what comes back.

Every request has a number. A reply carries the number of its request; the window drops replies to
view requests that are not the newest of their kind. Requests capture all they need.
"""

from dataclasses import dataclass

from attnscope.records.alignment import AlignmentShown, ShowAlignment
from attnscope.records.attention_graph import GraphShown, ShowGraph
from attnscope.records.causes import (
    AttributeOutput,
    OutputAttributed,
    PatchingNews,
    PatchTexts,
    StopPatching,
    TextsPatched,
)
from attnscope.records.compare import CompareTraces, TracesCompared
from attnscope.records.corpora import (
    CardShown,
    HeadsMeasured,
    MeasureHeads,
    MeasuringNews,
    ShowCard,
    StopMeasuring,
)
from attnscope.records.experiments import ExperimentNews, RunExperiment, StopExperiment
from attnscope.records.generation import TextWritten, WriteText, WritingNews
from attnscope.records.head_weights import ShowWeights, StopWeights, WeightsNews, WeightsShown
from attnscope.records.influence import InfluenceShown, ShowInfluence, StopInfluence
from attnscope.records.inside import InsideShown, ShowInside
from attnscope.records.inspections import InspectionsShown, ShowInspections
from attnscope.records.interventions import Interventions
from attnscope.records.lens import LensShown, ShowLens
from attnscope.records.maps import HeadMap, HeadMeasures, SelfCheck, SiteGrid
from attnscope.records.models import ModelInfo
from attnscope.records.outputs import Comparison, OutputWritten
from attnscope.records.pictures import PictureShown, ShowPicture
from attnscope.records.plans import PlanRecipe, PresetsShown, RecipePlanned, ShowPresets
from attnscope.records.positions import PositionTable
from attnscope.records.pruning import ForgetPruned, PrunedSaved, PruningTried, SavePruned, TryPruning
from attnscope.records.pruning_runs import (
    CurveMeasured,
    CurvesMeasured,
    CurvesNews,
    HeadsRanked,
    MeasureCurves,
    StopCurves,
)
from attnscope.records.redundancy import CompareHeads, ComparingNews, HeadsCompared, StopComparing
from attnscope.records.runs import FollowRun, OpenRuns, RunNews, RunsOpened
from attnscope.records.sites import NO_GATES, Gates, HeadRef, SiteKey
from attnscope.records.splits import ReplaySplits, SplitsReplayed
from attnscope.records.texts import OpenText, TextOpened
from attnscope.records.tokenizers import CompareTokenizers, StopTokenizers, TokenizersNews
from attnscope.records.tokens import Tokens
from attnscope.records.training import TrainingEvent
from attnscope.records.vocabulary import (
    FindPieces,
    PiecesFound,
    PieceShown,
    ShowPiece,
    ShowVocabulary,
    SpellText,
    TextSpelled,
    VocabularyShown,
)

OPEN_MODEL = ""
"""Names the open model in a request."""
TRAINING_MODEL = "training"
"""Names the model in training in a request; any other name is a checkpoint's folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadModel:
    """Open a model; `source` is whatever `attnscope.load` takes."""

    number: int
    source: str
    device: str = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceText:
    """Trace one text through a model with and without gates, and show `heads` in full.

    `target` None lets a sequence-to-sequence model write its own. Thumbnails have at most
    `thumbnail_px` cells a side. `past_trained` reads on where the model was never trained, if its
    positions allow it. A `view` is a place of the window that looks at models of its own choice; a target
    is left out there where the model reads none. Newest wins, separately for each `view`, or each `model`
    without one.
    """

    number: int
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
        """What its trace is kept under: the view, or the model."""
        return self.view or self.model


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowHeads:
    """Show heads of the newest trace of `view` or `model` in full. Newest wins, for each of them.

    Of the trace of the request `trace` alone, unless that is 0: nothing comes once another took its place.
    """

    number: int
    heads: tuple[HeadRef, ...]
    model: str = OPEN_MODEL
    view: str = ""
    trace: int = 0

    @property
    def place(self) -> str:
        """What the trace is kept under: the view, or the model."""
        return self.view or self.model


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowPositions:
    """Compute position tables: any of `sinusoidal`, `learned`, `rotary`, `binary`, `model`.

    `model` is the open model's own encoding. Newest wins.
    """

    number: int
    names: tuple[str, ...]
    n_positions: int
    d_model: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTraining:
    """Train a recipe into the run folder `out`; resumes a run there, which may get longer if said so."""

    number: int
    recipe: str
    out: str
    device: str = "auto"
    base_folder: str = ""
    may_lengthen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlTraining:
    """Pause, resume or stop (save and finish) the run in progress."""

    number: int
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRun:
    """Read a run folder: its recipe, its metrics and its list of checkpoints."""

    number: int
    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveModel:
    """Save the open model to a folder."""

    number: int
    folder: str


Request = (
    LoadModel
    | TraceText
    | ShowHeads
    | ShowPositions
    | StartTraining
    | ControlTraining
    | OpenRun
    | FollowRun
    | OpenRuns
    | ShowInspections
    | OpenText
    | SaveModel
    | WriteText
    | TryPruning
    | SavePruned
    | ForgetPruned
    | MeasureHeads
    | StopMeasuring
    | ShowCard
    | ShowLens
    | ShowAlignment
    | ShowInfluence
    | ShowGraph
    | StopInfluence
    | AttributeOutput
    | PatchTexts
    | StopPatching
    | ShowInside
    | ShowPicture
    | MeasureCurves
    | StopCurves
    | CompareHeads
    | StopComparing
    | ShowWeights
    | StopWeights
    | CompareTraces
    | ReplaySplits
    | CompareTokenizers
    | StopTokenizers
    | ShowVocabulary
    | FindPieces
    | ShowPiece
    | SpellText
    | RunExperiment
    | StopExperiment
    | PlanRecipe
    | ShowPresets
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The worker has its libraries and can serve; sent once."""

    devices: tuple[str, ...]
    demo_models: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLoaded:
    """A model is open; it replaces the one before."""

    number: int
    info: ModelInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """One text seen by one model: every head small, the wanted heads in full, what the model says.

    `source` and `target` are the tokens of both texts. `grids` has one entry for each site, in the
    model's order. `measures` covers every head. `comparison` is without gates against with gates; where it
    is being written, an `OutputWritten` follows. Of a trace for a `view`, `info` is its model. While a long
    pass goes on, only the maps of the `known` sites are there, no measure and no output; None: all are.
    """

    number: int
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

    def knows(self, site: SiteKey) -> bool:
        """Whether the maps of a site are there."""
        return self.known is None or site in self.known

    @property
    def part_words(self) -> str:
        """How much of it is there, where that is not all."""
        return "" if self.known is None else f"only {len(self.known)} of {len(self.grids)} layers are known"

    @property
    def place(self) -> str:
        """What the trace is kept under: the view, or the model."""
        return self.view or self.model


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadsShown:
    """The heads a ShowHeads asked for; `trace` is the number of the trace that it named."""

    number: int
    model: str
    maps: tuple[HeadMap, ...]
    trace: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionsShown:
    """The tables a ShowPositions asked for, in its order."""

    number: int
    tables: tuple[PositionTable, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingNews:
    """What happened in a run since the last news, at most 20 times a second."""

    number: int
    events: tuple[TrainingEvent, ...]
    is_paused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOpened:
    """A run folder's content; checkpoints as (step, folder), kept looks as (step, file), in order."""

    number: int
    folder: str
    recipe: str
    events: tuple[TrainingEvent, ...]
    checkpoints: tuple[tuple[int, str], ...]
    probes: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSaved:
    """The model is on disk and verified."""

    number: int
    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a long request is: `fraction` in 0…1, or None when it cannot be known."""

    number: int
    what: str
    fraction: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A request that came to nothing; the session is as it was.

    `message` says what happened, what was expected and what to do. `crash_log` names the log when
    the fault is the program's own.
    """

    number: int
    request: str
    message: str
    crash_log: str = ""


Reply = (
    Ready
    | ModelLoaded
    | Traced
    | OutputWritten
    | HeadsShown
    | PositionsShown
    | TrainingNews
    | RunOpened
    | RunNews
    | RunsOpened
    | InspectionsShown
    | TextOpened
    | ModelSaved
    | Progress
    | WritingNews
    | TextWritten
    | PruningTried
    | PrunedSaved
    | MeasuringNews
    | HeadsMeasured
    | CardShown
    | LensShown
    | AlignmentShown
    | InfluenceShown
    | GraphShown
    | OutputAttributed
    | PatchingNews
    | TextsPatched
    | InsideShown
    | PictureShown
    | CurvesNews
    | HeadsRanked
    | CurveMeasured
    | CurvesMeasured
    | ComparingNews
    | HeadsCompared
    | WeightsNews
    | WeightsShown
    | TracesCompared
    | SplitsReplayed
    | TokenizersNews
    | VocabularyShown
    | PiecesFound
    | PieceShown
    | TextSpelled
    | ExperimentNews
    | RecipePlanned
    | PresetsShown
    | Failed
)
