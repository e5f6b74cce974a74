"""Rank collapse (Dong, Cordonnier and Loukas 2021): what is left of the difference between tokens.

| symbol | meaning                                               | shape          |
|--------|-------------------------------------------------------|----------------|
| r_l    | ‖res(X)‖/‖X‖ after layer l, geometric mean over texts | [n_layers + 1] |
| s_l    | (ln r_(l+1) − ln r_l) / (ln r_l − ln r_(l−1))         | one number     |

Their theorem bounds the residual of attention alone by C^((3^L − 1)/2) · ‖res(X)‖^(3^L): each layer cubes
it. Of r_(l+1) = c · r_l³ the growth s_l is 3; of a merely exponential fall it is 1. Models compute in
float64 here, or rounding would stop the fall at 1e-7.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch

from attnscope.analysis.collapse import rank_collapse
from attnscope.analysis.corpus_texts import Text, own_texts
from attnscope.models import Model, ModelCard, load
from attnscope.models.own import OwnNetwork
from attnscope.nn.building import build_transformer
from attnscope.nn.config import ModelConfig
from attnscope.nn.machine import has_double
from attnscope.records.charts import Chart, Series
from attnscope.records.importance import PartsDone
from attnscope.records.measures import CollapseCurve
from attnscope.records.models import Form
from attnscope.studies.study import Cell, Choices, PaperComparison, Study, StudyCard
from attnscope.text.tasks import make_task, task_tokenizer

CARD = StudyCard(
    name="collapse",
    place=1,
    paper="Dong, Cordonnier and Loukas 2021, Attention is not all you need",
    question="Does attention alone make all tokens alike, doubly exponentially with depth?",
    takes=("model",),
)

FLOOR = 1e-13
"""Below this a ratio is rounding and not a residual."""
_DEMOS = ("shakespeare-masked", "grammar", "stories")
_N_LAYERS, _N_TEXTS, _TEXTS_IN_ONE = 12, 8, 3
_CUBIC = 3.0
_NEW: tuple[tuple[str, Form, float], ...] = (
    ("sharp encoder", "encoder", 4.0),
    ("new encoder", "encoder", 1.0),
    ("new decoder", "decoder", 1.0),
)
"""Untrained models: name, form, and what their queries and keys are multiplied by."""
_SHORT = {
    (True, True): "with both",
    (True, False): "skips only",
    (False, True): "feed-forward only",
    (False, False): "attention alone",
}
_Found = tuple[str, tuple[CollapseCurve, ...]]


def reproduce(choices: Choices) -> Iterator[PartsDone | Study]:
    """Curves of new deep encoders, of a causal one, and of the demo models or the one given.

    Raises UserError at once for a model of another library: it is computed in float64 here.
    """
    n_texts = 2 if choices.is_quick else _N_TEXTS
    names = (choices.model,) if choices.model else _DEMOS[:1] if choices.is_quick else _DEMOS
    given = load(choices.model, device=choices.device) if choices.model else None
    if given is not None:
        _ = given.own
    found: list[_Found] = []
    n_total = len(_NEW) + len(names)
    for name, form, sharpness in _NEW:
        yield PartsDone(n_done=len(found), n_total=n_total, about=name)
        model = new_model(form, choices.seed, sharpness=sharpness)
        found.append((name, mean_curves(model, _new_texts(n_texts, choices.seed))))
    for name in names:
        yield PartsDone(n_done=len(found), n_total=n_total, about=name)
        loaded = given or load(name, device=choices.device)
        found.append((name, mean_curves(loaded, own_texts(loaded, n_texts)[0])))
    info = None if given is None else given.info
    yield Study(
        name=CARD.name,
        paper=CARD.paper,
        question=CARD.question,
        setting=(
            ("models", ", ".join(name for name, _ in found)),
            ("new models", f"{_N_LAYERS} layers, 8 heads, d_model 128, norm before, untrained"),
            ("sharp encoder", "the same with queries and keys times 4, so that the fall takes more layers"),
            ("texts", f"{n_texts} of each model's own; geometric mean; float64"),
            ("seed", str(choices.seed)),
        ),
        comparisons=_compare(found),
        differences=_DIFFERENCES,
        charts=tuple(_chart(name, curves) for name, curves in found),
        columns=("model", "stack", "has_skips", "has_feed_forward", "layer", "ratio", "cubic"),
        data=tuple(row for name, curves in found for row in _rows(name, curves)),
        model="" if info is None else info.name,
        sha256="" if info is None else info.sha256,
    )


def new_model(form: Form, seed: int, *, sharpness: float = 1.0) -> Model:
    """An untrained model over the words of the agreement task, queries and keys times `sharpness`."""
    tokenizer = task_tokenizer(make_task("agreement"))
    config = ModelConfig.from_dict(
        {
            "form": form,
            "vocab_size": tokenizer.vocab_size,
            "n_layers": _N_LAYERS,
            "n_heads": 8,
            "max_tokens": 128,
        }
    )
    card = ModelCard(name=f"new {form}", objective="masked" if form == "encoder" else "causal")
    module = build_transformer(config, seed)
    with torch.no_grad():
        for block in module.encoder if form == "encoder" else module.decoder:
            block.attention.qkv.weight[: 2 * config.d_model] *= sharpness  # type: ignore[operator, union-attr, index]
    return Model(OwnNetwork(module, tokenizer, card))


def mean_curves(model: Model, texts: Sequence[Text]) -> tuple[CollapseCurve, ...]:
    """The four curves of a model: geometric means over the texts, in float64."""
    module = model.own.module
    (module if has_double(module.device) else module.cpu()).double()
    each = []
    for text in texts:
        source, target = (text, None) if isinstance(text, str) else text
        each.append(rank_collapse(model, source, target))
    return tuple(
        replace(curves[0], ratios=_geometric_mean([curve.ratios for curve in curves]))
        for curves in zip(*each, strict=True)
    )


def growth(ratios: Sequence[float], floor: float = FLOOR) -> float:
    """s_l at the deepest layer whose neighbours all lie above `floor`; NaN where nothing falls there."""
    usable = [math.log(ratio) for ratio in _above(ratios, floor)[1:]]  # the input is no layer's output
    if len(usable) < 3 or usable[-2] >= usable[-3]:
        return math.nan
    return (usable[-1] - usable[-2]) / (usable[-2] - usable[-3])


def cubic_line(ratios: Sequence[float], floor: float = FLOOR) -> tuple[float, ...]:
    """r_l = c · r_(l−1)³, the constant taken from the first fall to below a half; NaN before and under."""
    line = [math.nan] * len(ratios)
    layers = range(1, len(ratios) - 1)
    start = next((i for i in layers if ratios[i] < 0.5 and floor < ratios[i + 1] < ratios[i]), None)
    if start is None:
        return tuple(line)
    line[start], line[start + 1] = ratios[start], ratios[start + 1]
    for index in range(start + 2, len(ratios)):
        value = line[index - 1] * (line[index - 1] / line[index - 2]) ** _CUBIC
        if not value > floor / 1000:
            break
        line[index] = value
    return tuple(line)


_DIFFERENCES = (
    "Ours is the ratio of Frobenius norms of one stream, theirs a bound in the 1,∞ norm and, in their figure,"
    " the relative residual of BERT, ALBERT and XLNet; a power of three shows in either.",
    "The layer norms stay on where skips and feed-forward are off; they rescale the stream, not the share of"
    " it that is residual.",
    "What feed-forward layers do depends on their weights: theirs can slow the collapse through a Lipschitz"
    " constant above 1; where ours hasten it, they had never been run without skips in training.",
    "The theorem is about attention in which every token sees every other. In a causal model each row is a"
    " mean over another set of tokens, and the collapse is exponential only: the decoders show it.",
    "The demo models are small (2 to 4 layers), so that the power can be read off few layers.",
)


def _compare(found: Sequence[_Found]) -> tuple[PaperComparison, ...]:
    by_name = dict(found)
    new, causal = by_name["new encoder"], by_name["new decoder"]
    bare, skips = _ratios(new, False, False), _ratios(new, True, True)
    rows = [
        *(_power(name, growth(_ratios(curves, False, False))) for name, curves in _full(found)),
        PaperComparison(
            what="growth of ln(residual) from layer to layer, new causal decoder",
            published="nothing claimed: the theorem needs every token to see every other",
            where="—",
            ours=growth(_ratios(causal, False, False)),
            remark="1 is an exponential fall, 3 a doubly exponential one.",
        ),
        PaperComparison(
            what=f"residual after {len(skips) - 1} layers with skips and feed-forward, new encoder",
            published="direction only: skips stop the degeneration",
            where="abstract",
            ours=skips[-1],
            unit="of the stream",
            is_as_published=skips[-1] > 1e6 * bare[-1],
            remark=f"Attention alone leaves {bare[-1]:.1g}.",
        ),
    ]
    for name, curves in _full(found):
        alone, fed = _ratios(curves, False, False), _ratios(curves, False, True)
        layer = min(len(_above(alone, FLOOR)), len(_above(fed, FLOOR))) - 1
        rows.append(
            PaperComparison(
                what=f"residual with feed-forward over that without, no skips, after layer {layer}, {name}",
                published="direction only: feed-forward layers can slow the collapse",
                where="abstract",
                ours=fed[layer] / alone[layer],
                unit="times",
                is_as_published=fed[layer] > alone[layer],
            )
        )
    return tuple(rows)


def _power(name: str, ours: float) -> PaperComparison:
    return PaperComparison(
        what=f"growth of ln(residual) from layer to layer, attention alone, {name}",
        published="3 (each layer cubes the residual)",
        where="section 2, theorems on attention alone",
        ours=ours,
        is_as_published=None if math.isnan(ours) else abs(ours - _CUBIC) < 0.5,
        remark="It takes three layers above rounding to read it off." if math.isnan(ours) else "",
    )


def _full(found: Sequence[_Found]) -> list[_Found]:
    """Those whose tokens see each other both ways."""
    return [(name, curves) for name, curves in found if curves[0].stack == "encoder"]


def _ratios(curves: Sequence[CollapseCurve], has_skips: bool, has_feed_forward: bool) -> tuple[float, ...]:
    wanted = (has_skips, has_feed_forward)
    return next(curve.ratios for curve in curves if (curve.has_skips, curve.has_feed_forward) == wanted)


def collapse_chart(curves: Sequence[CollapseCurve]) -> Chart:
    """Differences between tokens after each layer, with parts of the model off; a logarithmic axis."""
    series = tuple(
        Series(
            name=curve.label,
            xs=np.arange(float(len(curve.ratios))),
            ys=np.array(curve.ratios),
            colour=colour,
            has_points=True,
        )
        for colour, curve in enumerate(curves)
    )
    return Chart(
        title=f"Rank collapse, {curves[0].stack}",
        x_label="layers passed",
        y_label="‖res‖ / ‖X‖",
        series=series,
        is_log_y=True,
    )


def _chart(name: str, curves: Sequence[CollapseCurve]) -> Chart:
    """The curves as far as they are no rounding, and the theory's line where it holds."""
    chart = collapse_chart(curves)
    series = tuple(
        replace(
            one,
            name=_SHORT[curve.has_skips, curve.has_feed_forward],
            ys=np.where(one.ys > FLOOR, one.ys, np.nan),
        )
        for one, curve in zip(chart.series, curves, strict=True)
    )
    line = np.array(cubic_line(_ratios(curves, False, False)))
    if curves[0].stack == "encoder" and np.isfinite(line).sum() > 2:
        xs = np.arange(float(len(line)))
        theory = Series(name="theory: cubed", xs=xs, ys=np.where(line > FLOOR, line, np.nan), colour=5)
        series = (theory, *series)
    return replace(chart, title=f"Residual, {name}", series=series)


def _rows(name: str, curves: Sequence[CollapseCurve]) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    for curve in curves:
        is_bare = not curve.has_skips and not curve.has_feed_forward
        line = cubic_line(curve.ratios) if is_bare else (math.nan,) * len(curve.ratios)
        for layer, (ratio, cubic) in enumerate(zip(curve.ratios, line, strict=True)):
            rows.append((name, curve.stack, curve.has_skips, curve.has_feed_forward, layer, ratio, cubic))
    return rows


def _above(ratios: Sequence[float], floor: float) -> list[float]:
    """The ratios before the first that is not above `floor`."""
    n = next((index for index, ratio in enumerate(ratios) if ratio <= floor), len(ratios))
    return list(ratios[:n])


def _geometric_mean(rows: Sequence[Sequence[float]]) -> tuple[float, ...]:
    logs = np.log(np.maximum(np.array(rows, np.float64), np.finfo(np.float64).tiny))
    return tuple(float(value) for value in np.exp(logs.mean(axis=0)))


def _new_texts(n: int, seed: int) -> list[Text]:
    """Some sentences of the agreement task, several to a text so that a text has many tokens."""
    examples = make_task("agreement").examples(_TEXTS_IN_ONE * n, seed=seed)
    sources = [example.source for example in examples]
    return [" ".join(sources[i * _TEXTS_IN_ONE : (i + 1) * _TEXTS_IN_ONE]) for i in range(n)]
