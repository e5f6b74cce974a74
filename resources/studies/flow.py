"""Raw attention, rollout and flow against blank-out (Abnar and Zuidema 2020, table 1).

For each layer and sentence: Spearman's correlation, over the words, of what the query before the verb gives
each word with how much blanking that word out moves the probability of the right verb. Means and standard
deviations are over the sentences, as in the paper.

| symbol     | meaning                                                     | shape     |
|------------|-------------------------------------------------------------|-----------|
| p          | probability of the right verb among the two verbs           | one number|
| importance | abs(p − p with the word blanked out)                        | [n_words] |
| ranks      | 1 for the smallest; equal values share their mean rank      | [n]       |

Blank-out as Abnar and Zuidema (2020, section 2) have it: a word is replaced by the unknown token, and what
changes counts. Spearman's correlation is Pearson's of the ranks.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from attnscope.analysis.bootstrap import mean_interval
from attnscope.analysis.influence import flow_row, mean_weights, relevance, roll_out, trace_levels
from attnscope.analysis.model_adapter import TokenBatch, subject_of
from attnscope.analysis.watched_pass import read_text
from attnscope.errors import UserError
from attnscope.models import Model, load
from attnscope.nn.machine import exact
from attnscope.records.charts import Chart, Series
from attnscope.records.importance import PartsDone
from attnscope.studies.making import QUICK, parameters_said, run_folder, train_study
from attnscope.studies.study import Cell, Choices, PaperComparison, Study, StudyCard
from attnscope.text.examples import Example
from attnscope.text.tasks import make_task

CARD = StudyCard(
    name="flow",
    place=4,
    paper="Abnar and Zuidema 2020, Quantifying attention flow in Transformers",
    question="Does attention agree better with blanking out words when it is followed to the input?",
    takes=("model",),
)

METHODS = ("raw", "rollout", "flow")
EARLINESS = "earliness"
"""The control: how early a word stands, whatever the model does."""
PUBLISHED: Mapping[str, tuple[tuple[float, float], ...]] = {
    "raw": ((0.69, 0.27), (0.10, 0.43), (-0.11, 0.49), (-0.09, 0.52), (0.20, 0.45), (0.29, 0.39)),
    "rollout": ((0.32, 0.26), (0.38, 0.27), (0.51, 0.26), (0.62, 0.26), (0.70, 0.25), (0.71, 0.24)),
    "flow": ((0.32, 0.26), (0.44, 0.29), (0.70, 0.25), (0.70, 0.22), (0.71, 0.22), (0.70, 0.22)),
}
"""Mean and standard deviation of each layer, first to sixth; their table 1."""
_VERBS = ("is", "are")
_N_TEXTS, _MIN_WORDS = 200, 6
_HELD_OUT_SEED = 3
_Weights = Mapping[str, Sequence[NDArray[np.float64]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One sentence before its verb: its words, the right and the wrong verb, the subject's place.

    `positions` are the tokens of the words, without the token before the first.
    """

    text: str
    right_id: int
    wrong_id: int
    positions: tuple[int, ...]
    subject: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """One method, [n_texts, n_layers] each: correlations, and whether the subject has most weight."""

    correlations: NDArray[np.float64]
    is_subject_first: NDArray[np.bool_]

    @property
    def n_texts(self) -> int:
        """Sentences."""
        return len(self.correlations)

    def mean(self, layer: int = -1) -> float:
        """The mean correlation of a layer, over the sentences that have one."""
        return float(np.nanmean(self.correlations[:, layer]))

    def deviation(self, layer: int = -1) -> float:
        """Its standard deviation."""
        return float(np.nanstd(self.correlations[:, layer]))


def reproduce(choices: Choices) -> Iterator[PartsDone | Study]:
    """Train the model of the agreement task, or open the one given, and compare."""
    if choices.model:
        model = load(choices.model, device=choices.device)
    else:
        changes = {**QUICK, "model.n_layers": "2"} if choices.is_quick else {}
        out = run_folder(choices, "agreement")
        yield from train_study("agreement", out, seed=choices.seed, device=choices.device, changes=changes)
        model = load(out, device=choices.device)
    n_texts = 4 if choices.is_quick else _N_TEXTS
    drawn = make_task("agreement").examples(4 * n_texts, seed=_HELD_OUT_SEED, held_out=True)
    examples = [example for example in drawn if example.n_given >= _MIN_WORDS][:n_texts]
    found: dict[str, Agreement] = {}
    n_right = 0
    rows: dict[str, list[tuple[list[float], list[bool]]]] = {}
    for n_done, example in enumerate(examples, start=1):
        decision = decision_of(model, example, _VERBS)
        p, importance = blank_out(model, decision)
        n_right += p > 0.5
        for method, layers in word_weights(model, decision).items():
            rows.setdefault(method, []).append(_compare_words(decision, importance, layers))
        yield PartsDone(n_done=n_done, n_total=len(examples), about="comparing with blank-out")
    for method, texts in rows.items():
        correlations, firsts = (np.array(part) for part in zip(*texts, strict=True))
        found[method] = Agreement(correlations=correlations, is_subject_first=firsts)
    yield _study(choices, model, found, n_right / len(examples))


def word_weights(model: Model, decision: Decision) -> _Weights:
    """Weights of the last query on each word, by method: one array [n_words] for each layer.

    Chefer's relevance speaks for the whole model; the query's own 1, which it starts from, is taken out.
    """
    trace = model.trace(decision.text)
    levels, words = trace_levels(trace), list(decision.positions)
    rolled, last = roll_out(levels), len(levels[-1].tokens) - 1
    sites = [site for site in trace.sites if site.stack == "decoder"]
    own = relevance(model, decision.text, token_id=decision.right_id).weights[0].astype(np.float64)
    own[last] -= 1.0
    return {
        "raw": [mean_weights(trace, site)[last].cpu().double().numpy()[words] for site in sites],
        "rollout": [level[last].cpu().numpy()[words] for level in rolled[1:]],
        "flow": [flow_row(levels[: top + 1], last)[words] for top in range(1, len(levels))],
        "relevance": [own[words]],
        EARLINESS: [-np.arange(float(len(words)))],
    }


def _compare_words(
    decision: Decision, importance: NDArray[np.float64], layers: Sequence[NDArray[np.float64]]
) -> tuple[list[float], list[bool]]:
    """Each layer's correlation with the importance, and whether the subject has its largest weight."""
    at = decision.positions.index(decision.subject)
    return [spearman(one, importance) for one in layers], [int(one.argmax()) == at for one in layers]


def _study(choices: Choices, model: Model, found: Mapping[str, Agreement], accuracy: float) -> Study:
    n_layers = found["raw"].correlations.shape[1]
    is_own = not choices.model
    shown = parameters_said("agreement", model.info.n_parameters) if is_own else model.info.name
    return Study(
        name=CARD.name,
        paper=CARD.paper,
        question=CARD.question,
        setting=(
            ("model", f"{shown}, {n_layers} layers"),
            ("texts", f"{found['raw'].n_texts} held-out sentences of {_MIN_WORDS} words or more"),
            ("accuracy", f"{accuracy:.1%} of the verbs are right (theirs: 0.96)"),
            ("blank-out", "each word in turn becomes <unk>; probability of the right verb among is and are"),
            ("as published", "where the means differ by less than the smaller of both standard deviations"),
            ("seed", str(choices.seed)),
        ),
        comparisons=_compare(found),
        differences=_DIFFERENCES,
        charts=_charts(found),
        columns=("method", "layer", "mean", "deviation", "subject_first", "published_mean", "published_dev"),
        data=tuple(_rows(found)),
        model=model.info.name,
        sha256=model.info.sha256,
    )


_CONTROL = (
    "Only this much the method knows of the model; the rest it owes to the order of the words, since the"
    " subject stands early and a causal model lets early words flow everywhere."
)

_DIFFERENCES = (
    "Their sentences are Wikipedia's (Linzen et al. 2016), ours a small grammar's. Here nothing but the first"
    " noun tells the verb, so that blanking out any other word moves almost nothing and the ranks of the many"
    " unimportant words are close to chance; theirs have cues all over the sentence.",
    "Their model attends both ways and reads a CLS token, which is no word; ours is causal, the query is the"
    " last word itself, and half of each level is its own stream: the last word always gets weight.",
    "In a causal model early words flow everywhere, whatever it has learned, and here the subject stands"
    " early: the order of the words alone, a control that the paper lacks, agrees well with blank-out.",
    "Ours never saw <unk> in training; a word blanked out is one it has no idea of.",
    "Relevance (Chefer et al. 2021) is not in the paper; it stands here for a method that knows gradients.",
)


def _compare(found: Mapping[str, Agreement]) -> tuple[PaperComparison, ...]:
    rows = []
    for method in METHODS:
        n_layers = found[method].correlations.shape[1]
        for layer in range(n_layers):
            rows.append(_one_layer(method, layer, found[method], is_theirs=n_layers == len(PUBLISHED["raw"])))
    rows += [_above_raw(method, found) for method in ("rollout", "flow")]
    rows += [_above_control(method, found) for method in ("rollout", "flow")]
    rows.append(_unpublished("relevance, whole model", found["relevance"]))
    rows.append(_unpublished("control: how early a word stands", found[EARLINESS]))
    for method in (*METHODS, "relevance"):
        rows.append(
            PaperComparison(
                what=f"sentences in which the subject gets the largest weight, {method}, best layer",
                published="not in the paper",
                where="—",
                ours=float(found[method].is_subject_first.mean(axis=0).max()),
                unit="of the sentences",
            )
        )
    return tuple(rows)


def _above_raw(method: str, found: Mapping[str, Agreement]) -> PaperComparison:
    """The paper's claim: followed to the input, attention agrees better with blank-out."""
    ours = found[method].mean() - found["raw"].mean()
    return PaperComparison(
        what=f"{method} minus raw, last layer",
        published=f"{PUBLISHED[method][-1][0] - PUBLISHED['raw'][-1][0]:+.2f}",
        where="table 1",
        ours=ours,
        is_as_published=ours > 0,
        remark="The paper's claim: both agree better with blank-out than raw attention does.",
    )


def _unpublished(what: str, one: Agreement) -> PaperComparison:
    low, high = one.mean() - one.deviation(), one.mean() + one.deviation()
    return PaperComparison(
        what=what, published="not in the paper", where="—", ours=one.mean(), low=low, high=high
    )


def _above_control(method: str, found: Mapping[str, Agreement]) -> PaperComparison:
    """The gain of a method's last layer over the order of the words, sentence by sentence."""
    gains = found[method].correlations[:, -1] - found[EARLINESS].correlations[:, -1]
    value, low, high = mean_interval([float(gain) for gain in gains if not math.isnan(gain)])
    return PaperComparison(
        what=f"{method} minus the order of the words, last layer",
        published="not in the paper",
        where="—",
        ours=value,
        low=low,
        high=high,
        remark=_CONTROL,
    )


def _one_layer(method: str, layer: int, one: Agreement, *, is_theirs: bool) -> PaperComparison:
    mean, deviation = one.mean(layer), one.deviation(layer)
    theirs = PUBLISHED[method][layer] if is_theirs else None
    return PaperComparison(
        what=f"{method}, layer {layer + 1} of {one.correlations.shape[1]}",
        published=f"{theirs[0]:.2f} ± {theirs[1]:.2f}" if theirs else "their model has 6 layers",
        where="table 1",
        ours=mean,
        low=mean - deviation,
        high=mean + deviation,
        is_as_published=abs(mean - theirs[0]) < min(theirs[1], deviation) if theirs else None,
    )


def _charts(found: Mapping[str, Agreement]) -> tuple[Chart, ...]:
    n_layers = found["raw"].correlations.shape[1]
    ours = [
        _series(method, [found[method].mean(layer) for layer in range(n_layers)], colour)
        for colour, method in enumerate(METHODS)
    ]
    theirs = [
        _series(method, [mean for mean, _ in PUBLISHED[method]], colour)
        for colour, method in enumerate(METHODS)
    ]
    firsts = [
        _series(method, list(found[method].is_subject_first.mean(axis=0)), colour)
        for colour, method in enumerate(METHODS)
    ]
    ours.append(_series("order of words", [found[EARLINESS].mean()] * n_layers, 5))
    label = "Spearman correlation with blank-out"
    return (
        Chart(title="Ours", x_label="layer", y_label=label, series=tuple(ours), y_range=(-0.6, 1.0)),
        Chart(title="Published", x_label="layer", y_label=label, series=tuple(theirs), y_range=(-0.6, 1.0)),
        Chart(
            title="Subject first",
            x_label="layer",
            y_label="share of our sentences",
            series=tuple(firsts),
            y_range=(0.0, 1.02),
        ),
    )


def _series(name: str, values: Sequence[float], colour: int) -> Series:
    xs = np.arange(1.0, len(values) + 1)
    return Series(name=name, xs=xs, ys=np.array(values, np.float64), colour=colour, has_points=True)


def _rows(found: Mapping[str, Agreement]) -> Iterator[tuple[Cell, ...]]:
    for method, one in found.items():
        n_layers = one.correlations.shape[1]
        is_theirs = method in PUBLISHED and n_layers == len(PUBLISHED[method])
        for layer in range(n_layers):
            theirs = PUBLISHED[method][layer] if is_theirs else (math.nan, math.nan)
            share = float(one.is_subject_first[:, layer].mean())
            number = layer + 1 if method in PUBLISHED else None
            yield (method, number, one.mean(layer), one.deviation(layer), share, *theirs)


def decision_of(model: Model, example: Example, verbs: Sequence[str]) -> Decision:
    """The decision of an example of the agreement task; raises UserError for a model of other words."""
    words = example.source.split()
    text, right = " ".join(words[: example.n_given]), words[example.n_given]
    wrong = next(verb for verb in verbs if verb != right)
    tokens = model.encode(text).source.tokens
    positions = tuple(index for index, token in enumerate(tokens) if not token.is_special)
    right_ids, wrong_ids = (_ordinary_ids(model, word) for word in (right, wrong))
    if len(positions) != example.n_given or len(right_ids) != 1 or len(wrong_ids) != 1:
        raise UserError(
            f"{model.info.name} does not read the agreement task word by word.",
            expected="a causal model trained on the task agreement",
            action="Leave out --model, and the study trains its own.",
        )
    return Decision(
        text=text,
        right_id=right_ids[0],
        wrong_id=wrong_ids[0],
        positions=positions,
        subject=positions[example.links[0][1]],
    )


def blank_out(model: Model, decision: Decision) -> tuple[float, NDArray[np.float64]]:
    """The p of the whole sentence, and the importance of each word, [n_words]."""
    subject = subject_of(model)
    _, batch = read_text(model, decision.text)
    ids = batch.ids.repeat(len(decision.positions) + 1, 1)
    for row, position in enumerate(decision.positions, start=1):
        ids[row, position] = unknown_id(model)
    with subject.studying():
        hidden = subject.hidden(TokenBatch(ids=ids, labels=torch.full_like(ids, -1)))
        logits = exact(subject.logits(hidden[:, -1]))
    p = (logits[:, decision.right_id] - logits[:, decision.wrong_id]).sigmoid().cpu().numpy()
    return float(p[0]), np.abs(p[0] - p[1:])


def unknown_id(model: Model) -> int:
    """The id of the token that stands for unknown words."""
    return model.own.vocabulary.unknown_id


def ranks_of(values: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """The ranks of some numbers from 1 on; equal ones share the mean of theirs."""
    array = np.asarray(values, np.float64)
    _, inverse, counts = np.unique(array, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    means: NDArray[np.float64] = last - (counts - 1) / 2
    return means[inverse]


def spearman(xs: Sequence[float] | NDArray[np.float64], ys: Sequence[float] | NDArray[np.float64]) -> float:
    """The rank correlation of two rows of numbers; NaN where one of them is all alike."""
    x, y = ranks_of(xs), ranks_of(ys)
    x, y = x - x.mean(), y - y.mean()
    length = math.sqrt(float((x * x).sum() * (y * y).sum()))
    return float((x * y).sum()) / length if length else math.nan


def _ordinary_ids(model: Model, word: str) -> list[int]:
    return [token.id for token in model.encode(word).source.tokens if not token.is_special]
