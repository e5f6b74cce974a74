"""Opening and saving models, reading texts from files, removing heads from a copy of a model, generating with
the open model, and experiments of the labs, piece by piece between views. No Qt.
"""

import time
from collections.abc import Generator, Iterator
from itertools import count
from pathlib import Path

from attnscope.analysis.measures import measure
from attnscope.errors import UserError
from attnscope.models import Model, open_source
from attnscope.models.pruning import Pruned, pruning, shapes_of
from attnscope.models.writing.written import SoFar, Written, compare_written
from attnscope.nn.long_work import as_news
from attnscope.records.experiments import ExperimentNews, Question, RunExperiment
from attnscope.records.importance import ForgetPruned, PrunedSaved, PruningTried, SavePruned, TryPruning
from attnscope.records.interventions import MAX_SHOWN, edges_from_text, read_edge_list
from attnscope.records.messages import (
    OPEN_MODEL,
    LoadModel,
    ModelLoaded,
    ModelSaved,
    OpenText,
    Progress,
    SaveModel,
    TextOpened,
    Traced,
)
from attnscope.records.outputs import WRITTEN_TRACE, TextWritten, WriteText, WritingNews
from attnscope.records.requests import Reply
from attnscope.records.sites import check_heads
from attnscope.text.corpora import TextOfFile, read_text_file
from attnscope.workers.engine import Desk, running, serves, works
from attnscope.workers.experiments import work_on
from attnscope.workers.mailbox import MAX_PER_S, RateLimit
from attnscope.workers.views import head_maps


@serves(LoadModel)
def load_model(request: LoadModel, desk: Desk) -> Iterator[Reply]:
    """Open a model; the one before stays open until the new one is complete."""
    yield Progress(number=request.number, what=f"Opening {Path(request.source).name or request.source}")
    model = open_source(request.source, request.device)
    yield ModelLoaded(number=request.number, info=model.info)
    # Only now: who gives the opening up at its last moment is not told of it, and keeps the model before.
    desk.models.open = model
    desk.views.forget(OPEN_MODEL)
    desk.forget_model()


@serves(SaveModel)
def save_model(request: SaveModel, desk: Desk) -> Iterator[Reply]:
    model = desk.model
    yield Progress(number=request.number, what=f"Saving {model.info.name}")
    model.save(Path(request.folder))
    yield ModelSaved(number=request.number, folder=request.folder)


@serves(OpenText)
def open_text(request: OpenText, desk: Desk) -> Iterator[Reply]:
    """Read a text file piece by piece; raises LoadError, except for an edge list."""
    path = Path(request.path)
    if request.tokens:
        yield _read_edges(request, path)
        return
    for found in read_text_file(path):
        if isinstance(found, TextOfFile):
            yield TextOpened(
                number=request.number,
                name=path.name,
                text=found.text,
                n_cut=found.n_cut_bytes,
                n_replaced=found.n_replaced,
            )
        else:
            yield Progress(number=request.number, what=f"Reading {path.name}", fraction=found)


def _read_edges(request: OpenText, path: Path) -> TextOpened:
    try:
        text = read_edge_list(path)
        edges = edges_from_text(text, request.tokens)
    except UserError as error:
        return TextOpened(number=request.number, name=path.name, text="", fault=str(error))
    return TextOpened(number=request.number, name=path.name, text=text[:MAX_SHOWN], edges=edges)


_STEPS = 3


class LastPruned:
    """The last smaller copy, until another replaces it; by the number of its request."""

    def __init__(self) -> None:
        self._kept: dict[int, Pruned] = {}

    def keep(self, number: int, pruned: Pruned) -> None:
        """Set the copy."""
        self._kept = {number: pruned}

    def forget(self) -> None:
        """Release the copy and its memory."""
        self._kept.clear()

    def get(self, number: int) -> Pruned:
        """The copy of a request; raises UserError if it is gone."""
        if number not in self._kept:
            raise UserError(
                "The smaller model is no longer available.",
                action="Remove the heads again, then save.",
            )
        return self._kept[number]


@serves(TryPruning)
def try_pruning(request: TryPruning, desk: Desk) -> Iterator[Reply]:
    """Make, check and measure a smaller copy; it can be cancelled in between."""
    model, last = desk.model, desk.kept(LastPruned)
    last.forget()
    read = model.encode(request.text, request.target) if request.text.strip() else None
    n_done = count()
    pruned = yield from as_news(
        pruning(model.network, request.gates, read, shape=request.shape),
        lambda what: Progress(number=request.number, what=what, fraction=next(n_done) / _STEPS),
    )
    last.keep(request.number, pruned)
    yield PruningTried(number=request.number, report=pruned.report, shapes=shapes_of(model.network))


@serves(SavePruned)
def save_pruned(request: SavePruned, desk: Desk) -> Iterator[Reply]:
    pruned = desk.kept(LastPruned).get(request.tried)
    yield Progress(number=request.number, what=f"Saving {Path(request.folder).name}")
    yield PrunedSaved(number=request.number, report=pruned.save(request.folder))


@serves(ForgetPruned)
def forget_pruned(request: ForgetPruned, desk: Desk) -> Iterator[Reply]:
    """Release the copy."""
    desk.kept(LastPruned).forget()
    return iter(())


THUMBNAIL_PX = 96


@serves(WriteText)
def answer_writing(request: WriteText, desk: Desk) -> Iterator[Reply]:
    """Generate, with news; at the end trace and text. It can be cancelled every 50 ms, or every token."""
    model = desk.model
    check_heads(request.heads, model.sites)
    check_heads((head for head, _ in request.gates.values), model.sites)
    limit = RateLimit(MAX_PER_S)
    n_most = request.settings.max_tokens

    def news(so_far: SoFar) -> WritingNews | None:
        if not limit.take():
            return None
        return WritingNews(number=request.number, tokens=so_far.tokens, whole=so_far.whole(), n_most=n_most)

    steps = model.writing(request.text, request.settings, request.gates, prefix=request.prefix)
    written = yield from as_news(steps, news)
    traced = _traced(request, model, written)
    desk.views.keep(WRITTEN_TRACE, written.trace, request.number)
    yield traced
    yield TextWritten(number=request.number, written=written.text, gates=request.gates)


def _traced(request: WriteText, model: Model, written: Written) -> Traced:
    begin_s = time.perf_counter()
    trace = written.trace
    return Traced(
        number=request.number,
        model=WRITTEN_TRACE,
        text=(trace.source if trace.target is None else trace.target).text,
        source=trace.source,
        target=trace.target,
        gates=request.gates,
        grids=tuple(trace.grid(site, THUMBNAIL_PX) for site in trace.sites),
        maps=head_maps(trace, request.heads),
        measures=measure(trace),
        comparison=compare_written(model.network, written),
        check=trace.check(),
        duration_ms=(time.perf_counter() - begin_s) * 1e3,
    )


@works(RunExperiment, max_per_s=MAX_PER_S / 4)
def run_experiment(request: RunExperiment, desk: Desk) -> Generator[Reply, None, None]:
    """Run one experiment, which asks for the open model if it needs it."""
    yield from work_on(request.question, request.number, lambda: running(desk.model))


def experiment_news(question: Question) -> Iterator[ExperimentNews]:
    """The same without a worker; none for a question about an open model."""
    return work_on(question, 0, _no_model)


def _no_model() -> Model:
    raise UserError("This experiment is about the open model.", expected="the window, with a model")
