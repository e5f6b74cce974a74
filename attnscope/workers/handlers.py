"""The engine: every request becomes replies. No Qt; a test may drive it with a plain `for`.

Errors end here. What the person can mend becomes a Failed with the sentence; anything else, panics of
native libraries included, is written to the crash log first. Either way the state is as it was.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from attnscope.errors import UserError
from attnscope.hub.here import carried_models
from attnscope.models import demo_models
from attnscope.models.device import lost_device
from attnscope.nn.stopping import Stopped
from attnscope.records.alignment import ShowAlignment
from attnscope.records.attention_graph import ShowGraph
from attnscope.records.causes import AttributeOutput, PatchTexts, StopPatching
from attnscope.records.compare import CompareTraces
from attnscope.records.corpora import MeasureHeads, ShowCard, StopMeasuring
from attnscope.records.experiments import RunExperiment, StopExperiment
from attnscope.records.generation import WriteText
from attnscope.records.head_weights import ShowWeights, StopWeights
from attnscope.records.influence import ShowInfluence, StopInfluence
from attnscope.records.inside import ShowInside
from attnscope.records.inspections import ShowInspections
from attnscope.records.lens import ShowLens
from attnscope.records.messages import (
    OPEN_MODEL,
    ControlTraining,
    Failed,
    LoadModel,
    OpenRun,
    Ready,
    Reply,
    Request,
    SaveModel,
    ShowHeads,
    ShowPositions,
    StartTraining,
    TraceText,
)
from attnscope.records.pictures import ShowPicture
from attnscope.records.plans import PlanRecipe, ShowPresets
from attnscope.records.pruning import ForgetPruned, SavePruned, TryPruning
from attnscope.records.pruning_runs import MeasureCurves, StopCurves
from attnscope.records.redundancy import CompareHeads, StopComparing
from attnscope.records.runs import FollowRun, OpenRuns
from attnscope.records.splits import ReplaySplits
from attnscope.records.texts import OpenText
from attnscope.records.tokenizers import CompareTokenizers, StopTokenizers
from attnscope.records.vocabulary import FindPieces, ShowPiece, ShowVocabulary, SpellText
from attnscope.workers.alike_job import alike_job
from attnscope.workers.background import BackgroundJobs
from attnscope.workers.curves_job import curves_job
from attnscope.workers.experiment_job import experiment_job, kind_of
from attnscope.workers.measuring_job import Measuring
from attnscope.workers.needs_model import require_model, running
from attnscope.workers.serve_alignment import GoldDesk
from attnscope.workers.serve_causes import attribute_output, patching_job
from attnscope.workers.serve_compare import Answers, compare_traces
from attnscope.workers.serve_generation import write_text
from attnscope.workers.serve_influence import show_graph, show_influence, stop_influence
from attnscope.workers.serve_inside import LastInside, show_inside
from attnscope.workers.serve_lens import show_lens
from attnscope.workers.serve_models import OpenModels, load_model, save_model
from attnscope.workers.serve_pictures import show_picture
from attnscope.workers.serve_plans import plan_text, show_presets
from attnscope.workers.serve_pruning import LastPruned, save_pruned, try_pruning
from attnscope.workers.serve_runs import KnownRuns, follow_run, open_runs, show_inspections
from attnscope.workers.serve_texts import open_text
from attnscope.workers.serve_tokens import (
    TokenDesk,
    find_in_vocabulary,
    replay_splits,
    show_piece,
    show_vocabulary,
    spell_text,
)
from attnscope.workers.serve_training import control_training, open_run, start_training
from attnscope.workers.serve_views import show_positions, trace_text
from attnscope.workers.tokenizers_job import tokenizers_job
from attnscope.workers.training_job import TrainingJob
from attnscope.workers.views import Views, show_heads
from attnscope.workers.weights_job import weights_job

CrashWriter = Callable[[BaseException, str], Path | None]


class Engine:
    """Everything the worker knows: the open models, the newest traces, the run in training."""

    def __init__(self, write_crash: CrashWriter, views: Views | None = None) -> None:
        self._write_crash = write_crash
        self._models = OpenModels()
        self._views = views or Views()
        self._answers = Answers()
        self._job: TrainingJob | None = None
        self._pruned = LastPruned()
        self._inside = LastInside()
        self._gold = GoldDesk()
        self._measuring: Measuring | None = None
        self._background = BackgroundJobs()
        self._tokens = TokenDesk()
        self._runs = KnownRuns()

    def ready(self) -> Ready:
        """What this machine offers."""
        devices = ["cpu"]
        if torch.cuda.is_available():
            devices.insert(0, "cuda")
        if torch.backends.mps.is_available():
            devices.insert(0, "mps")
        try:
            names = (*demo_models(), *carried_models())
            return Ready(devices=tuple(devices), demo_models=names)
        except UserError as error:
            return Ready(devices=tuple(devices), demo_models=(), note=str(error))

    def handle(self, request: Request) -> Iterator[Reply]:
        """Serve one request; never raises. Closing the iterator gives the request up.

        A pass that is stopped in its middle ends the iterator; nothing comes of it.
        """
        try:
            yield from self._serve(request)
        except GeneratorExit:
            raise
        except Stopped:
            return
        except BaseException as error:  # noqa: BLE001  an edge: panics of native libraries end here
            yield self._failed(request.number, request, error)

    @property
    def is_training(self) -> bool:
        """Whether `advance_training` would make progress: in a run, or in a measuring pass."""
        return self._background.is_active or (self._job is not None and self._job.is_active)

    def advance_training(self) -> Iterator[Reply]:
        """Do one piece of background work and give the news when they are due; never raises."""
        yield from self._background.advance(self._failed)
        job = self._job
        if job is None or not job.is_active:
            return
        try:
            news = job.advance()
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001  an edge, as above
            yield job.news()
            yield self._failed(job.number, "StartTraining", error)
            return
        if news is not None:
            yield news

    def stop_training(self) -> None:
        """Ask the run in progress to save and finish; passes in the background are given up."""
        self._background.stop_all()
        if self._job is not None and not self._job.is_finished:
            self._job.stop()

    def _card(self, request: ShowCard) -> Reply:
        if self._measuring is None:
            raise UserError("No head has been measured.", action="Measure the heads over texts first.")
        return self._measuring.card(request)

    def _serve(self, request: Request) -> Iterator[Reply]:
        require_model(request, self._models.open)
        match request:
            case LoadModel():
                yield from load_model(request, self._models, self._views)
                self._measuring = None  # it holds the model before
                self._background.stop_all()
                self._tokens.forget()
            case SaveModel():
                yield from save_model(request, self._models)
            case TraceText():
                yield from trace_text(request, self._models, self._views, self._answers)
            case CompareTraces():
                yield from compare_traces(request, self._views, self._answers)
            case ShowHeads():
                yield from show_heads(request, self._views)
            case WriteText():
                yield from write_text(request, self._models, self._views)
            case TryPruning():
                yield from try_pruning(request, self._models, self._pruned)
            case SavePruned():
                yield from save_pruned(request, self._pruned)
            case ForgetPruned():
                self._pruned.forget()
            case ShowPositions():
                yield from show_positions(request, self._models)
            case ShowLens():
                yield from show_lens(request, self._models)
            case ShowAlignment():
                yield from self._gold.show(request, self._models, self._views)
            case ShowInside():
                yield from show_inside(request, self._models, self._inside)
            case ShowPicture():
                yield from show_picture(request, self._models)
            case ShowInfluence():
                yield from show_influence(request, self._models, self._views, self._background)
            case ShowGraph():
                yield from show_graph(request, self._models, self._views)
            case StopInfluence():
                stop_influence(self._background)
            case AttributeOutput():
                yield from attribute_output(request, self._models)
            case PatchTexts():
                self._background.start("PatchTexts", patching_job(request, self._models.get(OPEN_MODEL)))
            case StopPatching():
                self._background.stop("PatchTexts")
            case MeasureCurves():
                self._background.start("MeasureCurves", curves_job(request, self._models.get(OPEN_MODEL)))
            case StopCurves():
                self._background.stop("MeasureCurves")
            case CompareHeads():
                job = alike_job(request, self._models.get(OPEN_MODEL), self._views)
                self._background.start("CompareHeads", job)
            case RunExperiment():
                job_of = experiment_job(request, lambda: running(self._models.get(OPEN_MODEL)))
                self._background.start(kind_of(request.question), job_of)
            case StopExperiment():
                self._background.stop(request.kind)
            case StopComparing():
                self._background.stop("CompareHeads")
            case ShowWeights():
                self._background.start("ShowWeights", weights_job(request, self._models.get(OPEN_MODEL)))
            case StopWeights():
                self._background.stop("ShowWeights")
            case ReplaySplits():
                yield from replay_splits(request, self._models, self._tokens)
            case CompareTokenizers():
                self._background.start("CompareTokenizers", tokenizers_job(request))
            case StopTokenizers():
                self._background.stop("CompareTokenizers")
            case ShowVocabulary():
                yield from show_vocabulary(request, self._models, self._tokens)
            case FindPieces():
                yield from find_in_vocabulary(request, self._models, self._tokens)
            case ShowPiece():
                yield from show_piece(request, self._models, self._tokens)
            case SpellText():
                yield from spell_text(request, self._models)
            case OpenRun():
                yield from open_run(request)
            case FollowRun():
                yield from follow_run(request)
            case OpenRuns():
                yield from open_runs(request, self._runs)
            case ShowInspections():
                yield from show_inspections(request, self._runs)
            case MeasureHeads():
                self._measuring = Measuring(request, self._models.get(OPEN_MODEL))
                self._background.start("MeasureHeads", self._measuring.job)
            case StopMeasuring():
                self._background.stop("MeasureHeads")
            case ShowCard():
                yield self._card(request)
            case PlanRecipe():
                yield from plan_text(request)
            case ShowPresets():
                yield from show_presets(request)
            case OpenText():
                yield from open_text(request)
            case StartTraining():
                self._job = start_training(request, self._job)
                self._models.training = self._job
                yield self._job.news()
            case ControlTraining():
                yield from control_training(request, self._job)
            case _:
                raise TypeError(f"no handler for {type(request).__name__}")

    def _failed(self, number: int, request: Request | str, error: BaseException) -> Failed:
        name = request if isinstance(request, str) else type(request).__name__
        if isinstance(error, UserError):
            return Failed(number=number, request=name, message=str(error))
        if isinstance(error, MemoryError | torch.OutOfMemoryError):
            return Failed(number=number, request=name, message=_MEMORY)
        lost = lost_device(error)
        if lost is not None:
            return Failed(number=number, request=name, message=str(lost))
        log = self._write_crash(error, f"serving {request!r}"[:2000])
        return Failed(
            number=number,
            request=name,
            message=f"{name} failed through a fault of AttnScope ({type(error).__name__}). "
            "Everything else is as it was.",
            crash_log=str(log or ""),
        )


_MEMORY = (
    "There is not enough memory for this. Expected: enough for the model and its text. "
    "Choose a smaller model, a shorter text or a smaller batch, or close other programs."
)
