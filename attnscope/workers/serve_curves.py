"""Measuring over texts in the background: pruning curves, and which heads attend alike. No Qt."""

import time
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

from attnscope.analysis.batches import Sample
from attnscope.analysis.corpus_texts import batch_tokens, own_examples, own_texts, read_corpus, sample_texts
from attnscope.analysis.pruning_curve import CurveChoices, pruning_curves, removal_steps
from attnscope.analysis.redundancy import HeadDivergences, head_pairs
from attnscope.conllu import read_conllu
from attnscope.errors import UserError
from attnscope.models import Model
from attnscope.records.importance import (
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
from attnscope.records.messages import OPEN_MODEL
from attnscope.records.redundancy import CompareHeads, ComparingNews, HeadsCompared
from attnscope.records.requests import Reply
from attnscope.workers.desk import Desk, works
from attnscope.workers.views import Views

News = CurvesNews | HeadsRanked | CurveMeasured | CurvesMeasured
_BACKWARD = 3.0
"""A pass with gradients takes about as long as so many without."""
_LEARNING_STEPS = 200
_MAX_BATCH = 16
_TOKENS_PER_WORD = 1.5


@works(MeasureCurves)
def measure_curves(request: MeasureCurves, desk: Desk) -> Generator[Reply, None, None]:
    """One pass over all rankings that were asked for."""
    return _measure(request, desk.model)


def _measure(request: MeasureCurves, model: Model) -> Generator[Reply, None, None]:
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
    yield CurvesMeasured(number=request.number, texts=name, duration_s=time.monotonic() - begin_s)


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
            is_backward = event.about.endswith("scoring heads") and ranking in ("gradient", "learned")
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
    """The texts that are asked for, and what they are called; raises UserError when there are none."""
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
    """Each ranking with its seed, quick ones first; `random` once for each seed."""
    order: tuple[Ranking, ...] = ("gradient", "random", "learned", "leave-one-out")
    runs: list[tuple[Ranking, int]] = []
    for ranking in order:
        if ranking in request.rankings:
            n = max(1, request.n_random) if ranking == "random" else 1
            runs += [(ranking, request.seed + k) for k in range(n)]
    return runs


def run_cost(ranking: Ranking, n_heads: int, n_batches: int, request: MeasureCurves) -> float:
    """About how many passes over a batch one ranking takes; one with gradients counts as several."""
    n_steps = len(removal_steps(n_heads, request.step_share)) - 1
    n_scorings = n_steps if request.is_rescored else 1
    scoring = {
        "gradient": n_scorings * n_batches * _BACKWARD,
        "leave-one-out": float(n_scorings * n_batches * (n_heads + 1)),
        "learned": _LEARNING_STEPS * _BACKWARD,
        "random": 0.0,
    }[ranking]
    # The metric after each step and before the first; each step is told once more when it is done.
    return scoring + n_batches * (n_steps + 1) + n_steps


def batch_size(model: Model, samples: Sequence[Sample]) -> int:
    """Texts read at a time: little work on a CPU, so that views are served in between."""
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
    """One pass over texts, or over the trace that is shown."""
    return _compare(request, desk.model, desk.views)


def _compare(request: CompareHeads, model: Model, views: Views) -> Generator[Reply, None, None]:
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
