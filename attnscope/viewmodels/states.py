"""Every state behind the window, the routing of replies, and the background tasks."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar

from psygnal import Signal, SignalGroup, SignalInstance

from attnscope.counting import percent, plural
from attnscope.records.experiments import Finding, Question
from attnscope.records.messages import ModelLoaded, Ready
from attnscope.records.requests import Reply, Request
from attnscope.viewmodels.asking import AskState
from attnscope.viewmodels.causes.across_layers import AcrossState, GraphState, LensState
from attnscope.viewmodels.causes.attribution_and_patching import AttributingState, PatchingState
from attnscope.viewmodels.causes.inside import InsideState
from attnscope.viewmodels.compare.state import CompareState
from attnscope.viewmodels.generation import GenerationState
from attnscope.viewmodels.heads.marks import AligningState, TintState
from attnscope.viewmodels.heads.pruning import CurvesState, PruningState
from attnscope.viewmodels.heads.state import HeadsState
from attnscope.viewmodels.heads.tabs import AlikeState, WeightsState
from attnscope.viewmodels.labs.controls import ExperimentsState
from attnscope.viewmodels.labs.tokenizers import MergesState, TokenizersState, VocabularyState
from attnscope.viewmodels.maps.map_tiles import MapTiles
from attnscope.viewmodels.maps.picturing import PictureState
from attnscope.viewmodels.positions import PositionsState
from attnscope.viewmodels.query import Job, Requests
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.shelf import ShelfState
from attnscope.viewmodels.training.state import TrainingState
from attnscope.viewmodels.training.sweeping import SweepState

Post = Callable[[Request], None]


def _nowhere(_request: object) -> None:
    """For states without replies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Posts:
    """Destinations of requests: the worker, the thread with the traces, or the downloader.

    `cancel` gives a request of the worker up, by its number.
    """

    worker: Post = _nowhere
    tiles: Post = _nowhere
    downloads: Post = _nowhere
    cancel: Callable[[int], None] = _nowhere


NOBODY = Posts()
"""No request is answered there."""

# Handing every reply of the worker to the part of the window that asked, and to nobody else.

MOST_PARTS = 64


class Part(Protocol):
    """A part of the window that sends requests."""

    def handle(self, reply: Reply) -> object: ...


PartT = TypeVar("PartT", bound=Part)


class Replies:
    """Part k of n uses the numbers k, k + n, k + 2n …, so that a reply's number identifies its part.

    What nobody asked for, under number 0, goes to the part that joined first.
    """

    def __init__(self, posts: Posts = NOBODY) -> None:
        self.posts = posts
        self._parts: list[Part] = []
        self._heard: dict[type[Reply], list[Part]] = defaultdict(list)

    def join(self, make: Callable[[Requests], PartT], *hears: type[Reply], post: Post | None = None) -> PartT:
        """Make a part that sends requests to the worker, or through `post`, under numbers of its own.

        It also gets every reply of the kinds that it `hears`.
        """
        place = len(self._parts)
        if place == MOST_PARTS:
            raise RuntimeError(f"at most {MOST_PARTS} parts")
        first, posts = place or MOST_PARTS, self.posts
        part = make(Requests(post or posts.worker, posts.cancel, first=first, step=MOST_PARTS))
        self._parts.append(part)
        for kind in hears:
            self._heard[kind].append(part)
        return part

    def deliver(self, reply: Reply) -> None:
        """Pass a reply to the part that asked, then to the listeners for such replies."""
        place = reply.number % MOST_PARTS
        owner = self._parts[place] if place < len(self._parts) else None
        if owner is not None:
            owner.handle(reply)
        for part in self._heard.get(type(reply), ()):
            if part is not owner:
                part.handle(reply)


class States:
    """All states except the session are made here, each with numbers of its own.

    `read_kept` reads what came with the program of the experiments of labs.
    """

    def __init__(
        self,
        session: Session,
        replies: Replies,
        *,
        read_kept: Callable[[], Mapping[Question, Finding]] = dict,
    ) -> None:
        join = replies.join
        self.session = session
        self.map_tiles = join(MapTiles, post=replies.posts.tiles)
        self.training = join(TrainingState, Ready)
        self.sweep = SweepState(self.training)
        self.positions = join(PositionsState, ModelLoaded)
        self.pruning = join(PruningState)
        self.heads = join(partial(HeadsState, session), ModelLoaded)
        self.tints = TintState(session, self.heads)
        self.compare = join(partial(CompareState, session))
        self.generation = join(partial(GenerationState, session))
        self.lens = join(partial(LensState, session))
        self.inside = join(partial(InsideState, session))
        self.picturing = join(partial(PictureState, session))
        self.aligning = join(partial(AligningState, session))
        self.across = join(partial(AcrossState, session))
        self.graph = join(partial(GraphState, session, self.across))
        self.attributing = join(partial(AttributingState, session, self.across))
        self.patching = join(partial(PatchingState, session, self.across), ModelLoaded)
        self.asking = join(partial(AskState, session))
        self.curves = join(partial(CurvesState, session), ModelLoaded)
        self.curves.changed.importance.connect(self._rank_heads, max_args=0)
        self.alike = join(partial(AlikeState, session), ModelLoaded)
        self.weights = join(partial(WeightsState, session), ModelLoaded)
        self.labs = LabStates(
            experiments=join(partial(ExperimentsState, session, read_kept=read_kept), ModelLoaded),
            merges=join(MergesState, ModelLoaded),
            tokenizers=join(TokenizersState, ModelLoaded),
            vocabulary=join(VocabularyState, ModelLoaded),
        )
        self.shelf = join(ShelfState, post=replies.posts.downloads)

    def _rank_heads(self) -> None:
        """Show findings of the pruning curves in the table of heads."""
        self.heads.rank(self.curves.importances)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabStates:
    """Made with the window, before any lab is shown."""

    experiments: ExperimentsState
    merges: MergesState
    tokenizers: TokenizersState
    vocabulary: VocabularyState


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundTask:
    """One task. `name` is its purpose, `what` its current step; `fraction` 0…1, None: not known.

    `stop` ends it; None for what cannot be ended, or ends by itself in a moment. `is_waited_for`: the user
    waits for it, and Esc ends it; other jobs run beside what the user does. `tells_what`: the line in the
    status bar says `what`, too.
    """

    name: str
    what: str = ""
    fraction: float | None = None
    stop: Callable[[], None] | None = field(default=None, compare=False)
    is_waited_for: bool = False
    tells_what: bool = False

    @property
    def percent(self) -> str:
        """Progress in percent; empty if unknown."""
        return "" if self.fraction is None else percent(min(max(self.fraction, 0.0), 1.0))


FindTasks = Callable[[], Iterable[BackgroundTask]]


class WorkState:
    """The running tasks, the oldest first."""

    changed = Signal()

    def __init__(self) -> None:
        self._found: dict[FindTasks, tuple[BackgroundTask, ...]] = {}
        self.jobs: tuple[BackgroundTask, ...] = ()

    def watch(self, changed: SignalGroup | SignalInstance, find: FindTasks) -> None:
        """Collect the tasks from `find` whenever their state has `changed`."""
        self._found[find] = ()
        changed.connect(partial(self._look, find), max_args=0)

    @property
    def summary(self) -> str:
        """All running tasks in a few words; empty if there are none."""
        if not self.jobs:
            return ""
        first = self.jobs[0]
        named = f"{first.name} {first.percent}".strip()
        if len(self.jobs) > 1:
            return f"{len(self.jobs)} tasks: {named}"
        return f"{named} · {first.what}" if first.tells_what and first.what else named

    def stop(self, name: str) -> None:
        """End the task of this name, if possible."""
        for job in self.jobs:
            if job.name == name and job.stop is not None:
                job.stop()
                return

    @property
    def waited_for(self) -> BackgroundTask | None:
        """The task that Esc ends."""
        return next((job for job in self.jobs if job.is_waited_for and job.stop is not None), None)

    def _look(self, find: FindTasks) -> None:
        jobs = tuple(find())
        if jobs == self._found[find]:
            return
        self._found[find] = jobs
        found = {job.name: job for jobs in self._found.values() for job in jobs}
        kept = [job.name for job in self.jobs if job.name in found]
        self.jobs = tuple(found[name] for name in (*kept, *(name for name in found if name not in kept)))
        self.changed.emit()


_WAITING = "waiting for its turn"


class Passing(Protocol):
    """A state with one long pass."""

    job: Job[Any, Any]

    @property
    def changed(self) -> SignalGroup: ...

    @property
    def progress(self) -> str:
        """Progress in words."""
        ...

    def stop(self) -> None: ...


def watch_pass(work: WorkState, name: str, state: Passing) -> None:
    """The long pass of a state."""

    def find() -> Iterator[BackgroundTask]:
        job = state.job
        if job.is_running:
            what = state.progress if job.news is not None else _WAITING
            yield BackgroundTask(name=name, what=what, fraction=job.fraction, stop=state.stop)

    work.watch(state.changed, find)


def watch_session(work: WorkState, session: Session, cancel: Callable[[int], None]) -> None:
    """Opening a model and tracing; `cancel` cancels a request of the worker."""

    def stop_loading() -> None:
        cancel(session.opening.give_up())

    def stop_tracing() -> None:
        cancel(session.tracing.give_up())

    def find() -> Iterator[BackgroundTask]:
        busy = session.opening.busy
        if busy is not None:
            yield BackgroundTask(
                name="Opening a model",
                what=busy.what,
                fraction=busy.fraction,
                stop=stop_loading,
                is_waited_for=True,
            )
        elif session.tracing.is_waiting:
            heard = session.tracing.progress
            yield BackgroundTask(
                name="Tracing the text",
                what=heard.what if heard else "",
                fraction=heard.fraction if heard else None,
                stop=stop_tracing,
                is_waited_for=True,
                tells_what=heard is not None and heard.fraction is not None,
            )

    for changed in (session.changed.busy, session.changed.stale, session.changed.traced):
        work.watch(changed, find)


def watch_training(work: WorkState, training: TrainingState) -> None:
    """The run in progress."""

    def find() -> Iterator[BackgroundTask]:
        run = training.run
        if run.is_active:
            words = [f"step {run.step:,} of {run.n_steps:,}"] if run.n_steps else []
            words += [run.remaining or run.status.title]
            stop = training.stop if run.status.can_stop else None
            name = "Training, paused" if run.status.phase == "paused" else "Training"
            what = " · ".join(filter(None, words))
            yield BackgroundTask(name=name, what=what, fraction=run.fraction, stop=stop)

    work.watch(training.changed, find)


def watch_sweep(work: WorkState, sweep: SweepState) -> None:
    """Several runs, one after another."""

    def find() -> Iterator[BackgroundTask]:
        if sweep.is_active:
            stop = None if sweep.phase == "stopping" else sweep.stop
            yield BackgroundTask(name="Several runs", what=sweep.what, fraction=sweep.fraction, stop=stop)

    work.watch(sweep.changed, find)


def watch_heads(work: WorkState, heads: HeadsState, curves: CurvesState, alike: AlikeState) -> None:
    """The passes of the Heads page."""
    watch_pass(work, "Measuring heads", heads)
    watch_pass(work, "Pruning curves", curves)
    watch_pass(work, "Comparing heads", alike)


def watch_writing(work: WorkState, generation: GenerationState) -> None:
    """Text being generated."""

    def find() -> Iterator[BackgroundTask]:
        if generation.is_writing:
            n = len(generation.tokens)
            what = f"{plural(n, 'token')} so far" if n else _WAITING
            yield BackgroundTask(name="Generating text", what=what, stop=generation.stop)

    work.watch(generation.changed, find)


def watch_pages(
    work: WorkState,
    compare: CompareState,
    pruning: PruningState,
    experiments: ExperimentsState,
    cancel: Callable[[int], None],
) -> None:
    """Comparing two sides, removing heads, and the experiments of the labs."""

    def stop_comparing() -> None:
        for number in compare.give_up():
            cancel(number)

    def comparing() -> Iterator[BackgroundTask]:
        if compare.is_waiting:
            yield BackgroundTask(
                name="Comparing A and B",
                what=compare.traces.progress,
                stop=stop_comparing,
                is_waited_for=True,
            )

    def removing() -> Iterator[BackgroundTask]:
        if pruning.is_working:
            stop = pruning.give_up if pruning.step == "trying" else None
            yield BackgroundTask(
                name="Removing heads",
                what=pruning.what,
                fraction=pruning.fraction,
                stop=stop,
                is_waited_for=True,
            )

    work.watch(compare.changed, comparing)
    work.watch(pruning.changed, removing)
    work.watch(experiments.changed, experiment_jobs(experiments))


def watch_flow(work: WorkState, across: AcrossState) -> None:
    """The attention flow of one output token."""

    def find() -> Iterator[BackgroundTask]:
        fraction = across.flow_fraction
        if fraction is not None:
            yield BackgroundTask(
                name="Attention flow", what=percent(fraction), fraction=fraction, stop=across.stop
            )

    work.watch(across.changed, find)


def watch_downloads(work: WorkState, shelf: ShelfState) -> None:
    """The model being downloaded; Stop is a pause."""

    def find() -> Iterator[BackgroundTask]:
        if shelf.fetching:
            name = f"Downloading {shelf.fetching.rpartition('/')[2]}"
            yield BackgroundTask(name=name, what=shelf.progress, fraction=shelf.fraction, stop=shelf.pause)

    work.watch(shelf.changed, find)


def experiment_jobs(experiments: ExperimentsState) -> FindTasks:
    """One task for each kind of running experiment."""

    def stopper(kind: type) -> Callable[[], None]:
        return lambda: experiments.stop(kind)

    def find() -> Iterator[BackgroundTask]:
        for question, n_done, n_total in experiments.under_way:
            what = f"{n_done:,} of {n_total:,}" if n_total else _WAITING
            fraction = n_done / n_total if n_total else None
            yield BackgroundTask(
                name=f"Lab: {_lab_asking(question)}",
                what=what,
                fraction=fraction,
                stop=stopper(type(question)),
            )

    return find


def _lab_asking(question: Question) -> str:
    """The name of the lab that asks a question; for one with a widget of its own, the question in words."""
    from attnscope.labs import LABS, Lab  # who asks has them already; the start of the window need not

    named = (lab.name for lab in LABS.values() if isinstance(lab, Lab) and lab.asks_it(question))
    kind = type(question).__name__
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in kind)
    return next(named, words.removesuffix(" question").strip())
