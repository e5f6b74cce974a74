"""Passes over texts, one batch at a time between other work: measures, pruning curves, heads alike. No Qt.

Answering how well cross-attention agrees with gold links on the text that is shown. No Qt.
"""

import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from attnscope.analysis.batches import Sample
from attnscope.analysis.corpus import measure_parts
from attnscope.analysis.corpus_texts import (
    Text,
    batch_tokens,
    own_examples,
    own_texts,
    read_corpus,
    sample_texts,
)
from attnscope.analysis.importance import (
    CurveChoices,
    HeadDivergences,
    head_pairs,
    pruning_curves,
    removal_steps,
)
from attnscope.analysis.roles import head_card
from attnscope.analysis.word_alignment import align_trace, links_of_files, links_of_task, own_pairs
from attnscope.analysis.words import AlignedPair, read_gold_files
from attnscope.conllu import Tree, read_conllu
from attnscope.errors import UserError
from attnscope.last_made import LastMade
from attnscope.models import Model
from attnscope.records.findings import (
    OWN_LINKS,
    OWN_TEXTS,
    UNMEASURED,
    AlignmentShown,
    CardShown,
    Findings,
    GoldFiles,
    HeadsMeasured,
    MeasureHeads,
    MeasuringNews,
    ShowAlignment,
    ShowCard,
)
from attnscope.records.importance import (
    RANKINGS,
    CurveMeasured,
    CurvesMeasured,
    CurvesNews,
    CurveSoFar,
    HeadsRanked,
    Importance,
    MeasureCurves,
    PartsDone,
    PruningCurve,
    Ranking,
    TextSource,
)
from attnscope.records.measures import CompareHeads, ComparingNews, HeadsCompared
from attnscope.records.messages import OPEN_MODEL
from attnscope.records.requests import Reply
from attnscope.workers.engine import Desk, serves, works
from attnscope.workers.views import Views


class Measuring:
    """One pass as a job, and afterwards its findings, for the cards of heads."""

    def __init__(self, request: MeasureHeads, model: Model) -> None:
        self._model = model
        self._texts: Sequence[Text] = ()
        self._trees: Sequence[Tree] = ()
        self._found = UNMEASURED
        self.steps = self._measure(request)

    def card(self, request: ShowCard) -> CardShown:
        """Card of one head, with its telling texts; raises UserError before the pass is complete."""
        found = self._found
        if request.head not in found.table.heads:
            raise UserError("This head has not been measured.", action="Measure the heads over texts first.")
        card = head_card(
            request.head,
            found.table,
            found.syntax,
            found.alignment,
            model=self._model,
            texts=self._texts,
            tree_texts=[tree.text for tree in self._trees],
            sites=self._model.sites,
        )
        return CardShown(number=request.number, card=card)

    def _measure(self, request: MeasureHeads) -> Generator[Reply, None, None]:
        yield MeasuringNews(number=request.number, what="Reading texts", n_done=0, n_total=0)
        name = self._read(request)
        pairs = self._linked(request)
        for found in measure_parts(
            self._model,
            self._texts,
            trees=self._trees,
            pairs=pairs,
            name=name,
            specials=request.specials,
            seed=request.seed,
        ):
            if isinstance(found, Findings):
                self._found = found
                yield HeadsMeasured(number=request.number, found=found)
            else:
                yield MeasuringNews(
                    number=request.number, what=found.what, n_done=found.n_done, n_total=found.n_total
                )

    def _read(self, request: MeasureHeads) -> str:
        """Read the texts; returns their name."""
        if request.path == OWN_TEXTS:
            self._texts, name = own_texts(self._model, request.max_texts)
            return name
        path = Path(request.path)
        if path.name.lower().endswith((".conllu", ".conllu.gz")):
            self._trees = read_conllu(path, request.max_texts)
            self._texts = [tree.text for tree in self._trees]
        else:
            takes_target = self._model.info.takes_target
            self._texts = read_corpus(path, takes_target=takes_target, max_texts=request.max_texts)
        return path.name

    def _linked(self, request: MeasureHeads) -> list[AlignedPair]:
        """The texts read, with their gold links; none without links or cross heads."""
        if all(site.stack != "cross" for site in self._model.sites):
            return []
        if request.links and request.path != OWN_TEXTS:
            files = GoldFiles(pairs=request.path, links=request.links, counts_from=request.links_from)
            return read_gold_files(files, request.max_texts)
        return own_pairs(self._model, request.max_texts) if request.path == OWN_TEXTS else []


class LastMeasuring:
    """The last pass begun over the open model."""

    measuring: Measuring | None = None

    def forget_model(self) -> None:
        """Another model is open; drop the pass over the old one."""
        self.measuring = None


@works(MeasureHeads)
def answer_measuring(request: MeasureHeads, desk: Desk) -> Generator[Reply, None, None]:
    """Measure every head over texts."""
    last = desk.kept(LastMeasuring)
    last.measuring = Measuring(request, desk.model)
    return last.measuring.steps


@serves(ShowCard)
def show_card(request: ShowCard, desk: Desk) -> Iterator[Reply]:
    """Show one head's card, from the last pass."""
    measuring = desk.kept(LastMeasuring).measuring
    if measuring is None:
        raise UserError("No head has been measured.", action="Measure the heads over texts first.")
    yield measuring.card(request)


class GoldDesk:
    """Keeps the pairs of the last opened files."""

    def __init__(self) -> None:
        self._pairs: LastMade[list[AlignedPair]] = LastMade()

    def show(self, request: ShowAlignment, desk: Desk) -> Iterator[Reply]:
        """The numbers and the links, or why there are none; raises UserError for invalid files."""
        model, trace = desk.model, desk.views.find(OPEN_MODEL, request.trace)
        if trace is None or trace.target is None:
            why = "the text has changed meanwhile" if trace is None else "there is no translation to align"
            yield AlignmentShown(number=request.number, trace=request.trace, note=why)
            return
        source, target = trace.source.text, trace.target.text
        if request.files == OWN_LINKS:
            known = links_of_task(model, source, target)
        else:
            known = links_of_files(self._read(request.files), Path(request.files.links).name, source, target)
        shown = AlignmentShown(
            number=request.number,
            trace=request.trace,
            origin=known.origin,
            note=known.note,
            offered=known.offered,
            following=known.following,
        )
        if known.pair is not None:
            table, cells = align_trace(trace, known.pair, rows=request.rows, model=model.info.name)
            shown = replace(shown, table=table, cells=cells)
        yield shown

    def _read(self, files: GoldFiles) -> list[AlignedPair]:
        changed = (_changed_ns(files.pairs), _changed_ns(files.links))
        return self._pairs.of((files, changed), lambda: read_gold_files(files))


def _changed_ns(path: str) -> int:
    """Modification time of a file; 0 if unknown, so that reading it reports the error."""
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:
        return 0


@serves(ShowAlignment)
def show_alignment(request: ShowAlignment, desk: Desk) -> Iterator[Reply]:
    """Show the agreement of cross-attention with the text's known links."""
    return desk.kept(GoldDesk).show(request, desk)


News = CurvesNews | HeadsRanked | CurveMeasured | CurvesMeasured
_BACKWARD = 3.0
"""A pass with gradients takes about as long as so many without."""
_MAX_BATCH = 16
_TOKENS_PER_WORD = 1.5


@works(MeasureCurves)
def measure_curves(request: MeasureCurves, desk: Desk) -> Generator[Reply, None, None]:
    """Run one pass over all requested rankings."""
    model = desk.model
    yield CurvesNews(number=request.number, what="Reading texts")
    samples, name = samples_asked(model, request.source, request.path, request.max_texts)
    size = batch_size(model, samples)
    n_heads = sum(site.n_heads for site in model.sites)
    plan = ranking_runs(request)
    n_batches = -(-len(samples) // size)
    costs = [run_cost(ranking, n_heads, n_batches, request) for ranking, _ in plan]
    begin_s, done = time.monotonic(), 0.0
    for (ranking, seed), cost in zip(plan, costs, strict=True):
        events = pruning_curves(
            model,
            samples,
            (ranking,),
            CurveChoices(
                metric=request.metric,
                step_share=request.step_share,
                is_rescored=request.is_rescored,
                batch_size=size,
                seed=seed,
            ),
        )
        yield from _follow(request.number, events, ranking, begin_s, done=done, cost=cost, total=sum(costs))
        done += cost
    yield CurvesMeasured(number=request.number, texts=name)


def _follow(
    number: int,
    events: Iterator[PartsDone | Importance | CurveSoFar | PruningCurve],
    ranking: Ranking,
    begin_s: float,
    *,
    done: float,
    cost: float,
    total: float,
) -> Iterator[News]:
    """The news of one ranking; `done`, `cost` and `total` count passes over a batch."""
    own = 0.0
    for event in events:
        if isinstance(event, PruningCurve):
            yield CurveMeasured(number=number, curve=event)
        elif isinstance(event, CurveSoFar):
            yield CurveMeasured(number=number, curve=event.curve, is_whole=False)
        elif isinstance(event, Importance):
            yield HeadsRanked(number=number, importance=event)
        else:
            is_backward = event.about.endswith("scoring heads") and RANKINGS[ranking].has_gradients
            own = min(cost, own + (_BACKWARD if is_backward else 1.0))
            fraction = (done + own) / total
            spent_s = time.monotonic() - begin_s
            yield CurvesNews(
                number=number,
                what=event.about,
                fraction=fraction,
                left_s=spent_s / fraction - spent_s if fraction else None,
            )


def samples_asked(model: Model, source: TextSource, path: str, max_texts: int) -> tuple[list[Sample], str]:
    """The requested texts, and their name; raises UserError if there are none."""
    if source == "samples":
        return list(sample_texts(model, max_texts)), "sample sentences"
    if source == "own":
        found = own_examples(model, max_texts)
        if found is not None:
            return list(found[0]), found[1]
        texts, name = own_texts(model, max_texts)
        return list(texts), name
    file = Path(path)
    if file.name.lower().endswith((".conllu", ".conllu.gz")):
        return [tree.text for tree in read_conllu(file, max_texts)], file.name
    return list(read_corpus(file, takes_target=model.info.takes_target, max_texts=max_texts)), file.name


def ranking_runs(request: MeasureCurves) -> list[tuple[Ranking, int]]:
    """Each ranking with its seed, quick ones first; one that is drawn once for each seed."""
    asked = sorted((RANKINGS[name] for name in set(request.rankings)), key=lambda one: one.order)
    n_of = {"drawn": max(1, request.n_random)}
    return [(one.name, request.seed + k) for one in asked for k in range(n_of.get(one.source, 1))]


def run_cost(ranking: Ranking, n_heads: int, n_batches: int, request: MeasureCurves) -> float:
    """Approximate number of passes over a batch for one ranking; one with gradients counts as several."""
    n_steps = len(removal_steps(n_heads, request.step_share)) - 1
    kind = RANKINGS[ranking]
    n_scorings = n_steps if request.is_rescored and kind.source == "measured" else 1
    scoring = n_scorings * kind.n_passes(n_batches, n_heads) * (_BACKWARD if kind.has_gradients else 1.0)
    # The metric after each step and before the first; each step is told once more when it is done.
    return scoring + n_batches * (n_steps + 1) + n_steps


def batch_size(model: Model, samples: Sequence[Sample]) -> int:
    """Texts read at a time: little work on a CPU, so that views are handled in between."""
    words = sum(_n_words(sample) for sample in samples) / max(1, len(samples))
    return int(min(max(batch_tokens(model) / (_TOKENS_PER_WORD * words + 2), 1), _MAX_BATCH))


def _n_words(sample: Sample) -> int:
    if isinstance(sample, str):
        return len(sample.split())
    source, target = sample if isinstance(sample, tuple) else (sample.source, sample.target)
    return len(source.split()) + len((target or "").split())


MAX_SHOWN = 512
"""Most tokens of a text that is compared alone: all maps of a stack are held at once."""
MIN_HEADS = 2


@works(CompareHeads)
def compare_heads(request: CompareHeads, desk: Desk) -> Generator[Reply, None, None]:
    """Run one pass over texts, or over the current trace."""
    model, views = desk.model, desk.views
    yield ComparingNews(number=request.number, n_done=0, n_total=0)
    if request.source == "shown":
        yield _shown(request, views)
        return
    samples, name = samples_asked(model, request.source, request.path, request.max_texts)
    for found in head_pairs(model, samples, request.stack):
        if isinstance(found, PartsDone):
            yield ComparingNews(number=request.number, n_done=found.n_done, n_total=found.n_total)
        else:
            yield HeadsCompared(number=request.number, pairs=found, texts=name)


def _shown(request: CompareHeads, views: Views) -> HeadsCompared:
    trace = views.find(OPEN_MODEL, request.trace)
    if trace is None:
        raise UserError("The text has changed meanwhile.", action="Compare again.")
    sites = [site for site in trace.sites if site.stack == request.stack]
    heads = [head for site in sites for head in site.heads]
    longest = max((len(part) for site in sites for part in trace.tokens(site)), default=0)
    if len(heads) < MIN_HEADS or longest > MAX_SHOWN:
        raise UserError(
            f"These are {len(heads)} heads on {longest} tokens.",
            expected=f"at least {MIN_HEADS} heads and at most {MAX_SHOWN} tokens",
            action="Choose another stack, or several shorter texts.",
        )
    sums = HeadDivergences(heads)
    sums.add(trace, request.stack)
    return HeadsCompared(
        number=request.number, pairs=sums.pairs(request.stack), texts="the text that is shown"
    )
