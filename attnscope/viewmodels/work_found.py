"""The jobs of each state of the window, for the list of what is under way. Must not import Qt."""

from collections.abc import Callable, Iterator

from attnscope.counting import counted
from attnscope.viewmodels.causes.across_layers import AcrossState
from attnscope.viewmodels.causes.patching import PatchingState
from attnscope.viewmodels.compare.state import CompareState
from attnscope.viewmodels.heads.alike import AlikeState
from attnscope.viewmodels.heads.head_weights import WeightsState
from attnscope.viewmodels.heads.pruning import PruningState
from attnscope.viewmodels.heads.pruning_curves import CurvesState
from attnscope.viewmodels.heads.state import HeadsState
from attnscope.viewmodels.labs.experiments import ExperimentsState
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.shelf import ShelfState
from attnscope.viewmodels.training.state import TrainingState
from attnscope.viewmodels.training.sweeping import SweepState
from attnscope.viewmodels.work import FindJobs, Job, WorkState
from attnscope.viewmodels.writing.state import GenerationState

_WAITING = "waiting for its turn"


def watch_session(work: WorkState, session: Session, cancel: Callable[[int], None]) -> None:
    """Opening a model and tracing; `cancel` gives up a request of the worker."""

    def stop_loading() -> None:
        cancel(session.give_up_loading())

    def stop_tracing() -> None:
        cancel(session.tracing.give_up())

    def find() -> Iterator[Job]:
        busy = session.busy
        if busy is not None:
            yield Job(
                name="Opening a model",
                what=busy.what,
                fraction=busy.fraction,
                stop=stop_loading,
                is_waited_for=True,
            )
        elif session.tracing.is_waiting:
            heard = session.tracing.progress
            yield Job(
                name="Tracing the text",
                what=heard.what if heard else "",
                fraction=heard.fraction if heard else None,
                stop=stop_tracing,
                is_waited_for=True,
                tells_what=heard is not None and heard.fraction is not None,
            )

    work.watch(session, find)


def watch_training(work: WorkState, training: TrainingState) -> None:
    """The run in progress."""

    def find() -> Iterator[Job]:
        if training.is_active:
            words = [f"step {training.step:,} of {training.n_steps:,}"] if training.n_steps else []
            words += [training.remaining or training.status.title]
            stop = training.stop if training.status.can_stop else None
            name = "Training, paused" if training.status.phase == "paused" else "Training"
            yield Job(name=name, what=" · ".join(filter(None, words)), fraction=training.fraction, stop=stop)

    work.watch(training, find)


def watch_sweep(work: WorkState, sweep: SweepState) -> None:
    """Several runs, one after another."""

    def find() -> Iterator[Job]:
        if sweep.is_active:
            stop = None if sweep.phase == "stopping" else sweep.stop
            yield Job(name="Several runs", what=sweep.what, fraction=sweep.fraction, stop=stop)

    work.watch(sweep, find)


def watch_heads(work: WorkState, heads: HeadsState, curves: CurvesState, alike: AlikeState) -> None:
    """The passes of the Heads page."""

    def measuring() -> Iterator[Job]:
        if heads.phase == "running":
            what = heads.progress if heads.news else _WAITING
            yield Job(name="Measuring heads", what=what, fraction=heads.fraction, stop=heads.stop)

    def pruning() -> Iterator[Job]:
        if curves.phase == "running":
            news = curves.news
            what, fraction = (curves.progress, news.fraction) if news else (_WAITING, None)
            yield Job(name="Pruning curves", what=what, fraction=fraction, stop=curves.stop)

    def comparing() -> Iterator[Job]:
        if alike.phase == "running":
            news = alike.news
            what = f"{news.n_done:,} of {news.n_total:,} texts" if news else _WAITING
            fraction = news.n_done / news.n_total if news and news.n_total else None
            yield Job(name="Comparing heads", what=what, fraction=fraction, stop=alike.stop)

    for state, find in ((heads, measuring), (curves, pruning), (alike, comparing)):
        work.watch(state, find)


def watch_weights(work: WorkState, weights: WeightsState) -> None:
    """What a head's weights say being worked out."""

    def find() -> Iterator[Job]:
        if weights.phase == "running":
            what = weights.progress if weights.news else _WAITING
            yield Job(name="A head's weights", what=what, fraction=weights.fraction, stop=weights.stop)

    work.watch(weights, find)


def watch_writing(work: WorkState, generation: GenerationState) -> None:
    """Text that is being written."""

    def find() -> Iterator[Job]:
        if generation.is_writing:
            n = len(generation.tokens)
            what = f"{counted(n, 'token')} so far" if n else _WAITING
            yield Job(name="Writing text", what=what, stop=generation.stop)

    work.watch(generation, find)


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

    def comparing() -> Iterator[Job]:
        if compare.is_waiting:
            yield Job(
                name="Comparing A and B", what=compare.progress, stop=stop_comparing, is_waited_for=True
            )

    def removing() -> Iterator[Job]:
        if pruning.is_working:
            stop = pruning.give_up if pruning.step == "trying" else None
            yield Job(
                name="Removing heads",
                what=pruning.what,
                fraction=pruning.fraction,
                stop=stop,
                is_waited_for=True,
            )

    work.watch(compare, comparing)
    work.watch(pruning, removing)
    work.watch(experiments, experiment_jobs(experiments))


def watch_flow(work: WorkState, across: AcrossState) -> None:
    """The attention flow of one output token."""

    def find() -> Iterator[Job]:
        fraction = across.flow_fraction
        if fraction is not None:
            yield Job(name="Attention flow", what=f"{fraction:.0%}", fraction=fraction, stop=across.stop)

    work.watch(across, find)


def watch_downloads(work: WorkState, shelf: ShelfState) -> None:
    """The model that is being downloaded; Stop is a pause."""

    def find() -> Iterator[Job]:
        if shelf.fetching:
            name = f"Downloading {shelf.fetching.rpartition('/')[2]}"
            yield Job(name=name, what=shelf.progress, fraction=shelf.fraction, stop=shelf.pause)

    work.watch(shelf, find)


def watch_patching(work: WorkState, patching: PatchingState) -> None:
    """Pieces of one text's run being put into that of another."""

    def find() -> Iterator[Job]:
        if patching.phase == "running":
            yield Job(name="Patching", what=patching.note, fraction=patching.fraction, stop=patching.stop)

    work.watch(patching, find)


def experiment_jobs(experiments: ExperimentsState) -> FindJobs:
    """One job for each kind of experiment that is under way."""

    def stopper(kind: type) -> Callable[[], None]:
        return lambda: experiments.stop(kind)

    def find() -> Iterator[Job]:
        for kind, n_done, n_total in experiments.under_way:
            what = f"{n_done:,} of {n_total:,}" if n_total else _WAITING
            fraction = n_done / n_total if n_total else None
            yield Job(name=f"Lab: {_words(kind)}", what=what, fraction=fraction, stop=stopper(kind))

    return find


def _words(kind: type) -> str:
    """The name of a kind of question in words: `GradientQuestion` becomes `gradient`."""
    name = kind.__name__.removesuffix("Question")
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()
