"""Norms before or after: the gradient of each layer at the first step (Xiong et al. 2020).

    symbol   meaning                                                              shape
    W₂       second matrix of a layer's feed-forward                              [d_model, d_ff]
    g_l      ‖∂loss/∂W₂‖ of layer l, mean over a few random models and texts       [n_layers]

The numbers are the worker's (`records/experiments.py`); a new model is drawn for each depth. Next to the
input of a decoder with norms after they are small and grow towards the output; an encoder's are alike. So the
words follow what was measured.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnscope.counting import format_number
from attnscope.fields import number, one_of, redraw
from attnscope.labs.lab import BLUE, ORANGE, Lab, LabWords, claimed, in_advance
from attnscope.records.charts import Chart, Series
from attnscope.records.experiments import (
    NO_ANSWER,
    PLACES,
    Drawing,
    ExperimentAnswer,
    GradientFinding,
    GradientQuestion,
    GradientStack,
    Place,
)

Numbers = NDArray[np.float64]
DEPTHS: tuple[int, ...] = (2, 4, 6, 8, 12, 16, 24)
WIDTHS: tuple[int, ...] = (32, 64, 128)
DRAWINGS: dict[Drawing, str] = {
    "xavier": "Xavier",
    "he": "He",
    "small": "0.02, GPT-2",
}
CLAIM = (
    "With norms after each branch the last layer starts with a large gradient, however deep the model; "
    "with norms before, it gets smaller as layers are added. So only norms after need warm-up."
)
STACK_NAMES: dict[GradientStack, str] = {"decoder": "decoder", "encoder": "encoder"}
_ALIKE = 1.25
"""Numbers that differ by less than this factor are called similar."""
PLACE_NAMES: dict[Place, str] = {"post": "norm after", "pre": "norm before"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementChoice:
    """The stack, the deepest model, its width, the initialisation, and the seed."""

    stack: GradientStack = one_of(
        "decoder",
        STACK_NAMES,
        title="measured",
        tip="The decoder of an encoder–decoder, as in the paper, or an encoder alone",
    )
    n_layers: int = number(12, DEPTHS, title="layers L", tip="Depth of the deepest model that is drawn")
    d_model: int = number(64, WIDTHS, title="width d", tip="d_model")
    drawing: Drawing = one_of(
        "xavier",
        DRAWINGS,
        title="weights",
        tip="First weights: Xavier's, as in the paper; He's, larger; N(0, 0.02²), as GPT-2's",
    )
    seed: int = redraw(
        title="Other weights", tip="Draw other models and texts; each number is the mean of three", step=10
    )
    answer: ExperimentAnswer = NO_ANSWER


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """By placement: g_l of the deepest model, and g of the last layer against `depths` (NaN: not done yet).

    `falling` is the law of the last layer with norms before, ∼ 1/√n_layers, through the deepest model.
    """

    choice: PlacementChoice
    stack: GradientStack
    by_layer: dict[Place, Numbers]
    depths: Numbers
    last: dict[Place, Numbers]
    falling: Numbers
    words: LabWords


def place_norms(choice: PlacementChoice) -> Placement:
    finding = choice.answer.of(GradientFinding)
    n_layers = finding.question.n_layers if finding is not None else choice.n_layers
    depths = sorted({c.n_layers for c in finding.curves} if finding is not None else ())
    by_layer, last = {}, {}
    for place in PLACES:
        curve = finding.curve(place, n_layers) if finding is not None else None
        by_layer[place] = np.array(curve.norms) if curve is not None else np.full(n_layers, np.nan)
        last[place] = np.array([_last(finding, place, n) for n in depths])
    falling = np.full(len(depths), np.nan)
    if depths and np.isfinite(last["pre"][-1]):
        falling = last["pre"][-1] * np.sqrt(depths[-1] / np.array(depths))
    return Placement(
        choice=choice,
        stack=finding.question.stack if finding is not None else choice.stack,
        by_layer=by_layer,
        depths=np.array(depths, np.float64),
        last=last,
        falling=falling,
        words=_words(choice, by_layer, last),
    )


def _last(finding: GradientFinding | None, place: Place, n_layers: int) -> float:
    curve = finding.curve(place, n_layers) if finding is not None else None
    return curve.norms[-1] if curve is not None else float("nan")


def _words(choice: PlacementChoice, by_layer: dict[Place, Numbers], last: dict[Place, Numbers]) -> LabWords:
    post, pre = by_layer["post"], by_layer["pre"]
    n = len(post)
    numbers = (
        ("g, last layer, norm after", format_number(float(post[-1]))),
        ("g, last layer, norm before", format_number(float(pre[-1]))),
        ("times larger, norm after", format_number(float(post[-1] / pre[-1]))),
        ("√L", format_number(float(np.sqrt(n)))),
        ("g, first layer, norm after", format_number(float(post[0]))),
        ("g, first layer, norm before", format_number(float(pre[0]))),
    )
    return LabWords(
        formula=(
            "after: x ← LN(x + f(x))",
            "before: x ← x + f(LN(x))",
            "g = ‖∂loss/∂W₂‖",
            "last layer: after ∼ d√(ln d),",
            "before ∼ d√(ln d / L)",
        ),
        numbers=numbers,
        sentence=_sentence(choice, by_layer, last),
    )


def _sentence(choice: PlacementChoice, by_layer: dict[Place, Numbers], last: dict[Place, Numbers]) -> str:
    post, pre = by_layer["post"], by_layer["pre"]
    if choice.answer.progress or not (np.isfinite(post).all() and np.isfinite(pre).all()):
        return claimed(CLAIM, choice.answer)
    ratio = float(post[-1] / pre[-1])
    if ratio < 1.3 and choice.drawing == "small":
        return (
            f"With weights as small as these, {len(post)} layers hardly add to the stream and both "
            "positions of the norm have nearly the same gradients. Initialise them as in the paper to see "
            "the difference."
        )
    first, final = (float(last["post"][k]) for k in (0, -1))
    shallow, deep = format_number(first, 2), format_number(final, 2)
    is_changed = max(first, final) > _ALIKE * min(first, final)
    depth = f"{'less' if final < first else 'more'} in deeper models" if is_changed else "of any depth"
    return (
        f"From layer 1 to {len(post)} first gradients {_course(post)} with norms after, {_course(pre)} "
        f"before. The last layer has {format_number(ratio, 2)} times the gradient after, {depth} "
        f"({shallow} → {deep}): warm-up is needed.{in_advance(choice.answer)}"
    )


def _course(values: Numbers) -> str:
    """How numbers change from the first to the last, in words."""
    first, last = float(values[0]), float(values[-1])
    ends = f"{format_number(first, 2)} → {format_number(last, 2)}"
    if last > _ALIKE * first:
        return f"grow ({ends})"
    return f"fall ({ends})" if _ALIKE * last < first else f"hardly change ({ends})"


_OF_PLACE: dict[Place, int] = {"post": ORANGE, "pre": BLUE}


def placement_charts(shown: Placement) -> tuple[Chart, ...]:
    """Gradients by layer, and those of the last layer by depth."""
    layers = np.arange(1.0, len(shown.by_layer["post"]) + 1)
    law = Series(name="∼ 1/√L", xs=shown.depths, ys=shown.falling, colour=BLUE, is_quiet=True)
    return (
        Chart(
            title="By layer",
            x_label=f"layer of the {shown.stack}, from the input",
            y_label="‖∂loss/∂W₂‖ at the first step",
            series=tuple(_by_place(place, layers, ys) for place, ys in shown.by_layer.items()),
            is_log_y=True,
        ),
        Chart(
            title="Last layer",
            x_label="depth L of the model",
            y_label=f"‖∂loss/∂W₂‖ of the {shown.stack}'s last layer",
            series=(law, *(_by_place(place, shown.depths, ys) for place, ys in shown.last.items())),
            is_log_x=True,
            is_log_y=True,
        ),
    )


def _by_place(place: Place, xs: Numbers, ys: Numbers) -> Series:
    return Series(name=PLACE_NAMES[place], xs=xs, ys=ys, colour=_OF_PLACE[place], has_points=True)


class NormPlacement(Lab[PlacementChoice, Placement]):
    name = "Norms before or after"
    group = "Depth and training"
    order = 2
    shows = "Gradients of each layer at the first step, with pre-LN and post-LN, against the depth"
    source = "Xiong et al. 2020"
    search = ("LayerNorm", "pre-LN", "post-LN", "pre-norm", "post-norm", "layer normalisation")
    help = """The gradient of each layer at the first step, with LayerNorm after the sum (post-LN) or before
    the sublayer (pre-LN), against the depth (Xiong 2020). The model is the decoder of an encoder–decoder,
    as in the paper, or an encoder alone. With post-LN the layers next to the output have large gradients at
    the start, whatever the depth, and in a decoder the gradients grow towards them; with pre-LN they shrink
    as layers are added. For a run of your own, see the tab *Gradients and updates* of [Train](help:train).
    """

    example = PlacementChoice()
    asks = GradientQuestion
    figure_mm = (180.0, 150.0)

    resolve = staticmethod(place_norms)
    charts = staticmethod(placement_charts)
