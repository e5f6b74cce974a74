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
from attnscope.records.experiments import (
    NO_ANSWER,
    PLACES,
    Answer,
    Drawing,
    GradientFinding,
    GradientQuestion,
    GradientStack,
    Place,
)
from attnscope.viewmodels.labs.lab import LabWords, claimed

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
"""Numbers that differ by less than this factor are told as alike."""
PLACE_NAMES: dict[Place, str] = {"post": "norm after", "pre": "norm before"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementChoice:
    """The stack that is measured, the deepest model, its width, how weights are drawn, which numbers."""

    stack: GradientStack = "decoder"
    n_layers: int = 12
    d_model: int = 64
    drawing: Drawing = "xavier"
    seed: int = 0
    answer: Answer = NO_ANSWER

    @property
    def question(self) -> GradientQuestion:
        """What the worker is asked."""
        return GradientQuestion(
            stack=self.stack,
            n_layers=self.n_layers,
            d_model=self.d_model,
            drawing=self.drawing,
            seed=self.seed,
        )


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
    """What is known so far."""
    finding = choice.answer.finding if isinstance(choice.answer.finding, GradientFinding) else None
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
    if ratio < 1.3:
        return (
            f"With weights as small as these, {len(post)} layers hardly add to the stream and both "
            f"positions of the norm have the same gradients. Initialise them as in the paper to see the "
            f"difference."
        )
    shallow, deep = (format_number(float(last["post"][k]), 2) for k in (0, -1))
    depth = "less in deeper models" if _ALIKE * last["post"][-1] < last["post"][0] else "of any depth"
    return (
        f"From layer 1 to {len(post)} first gradients {_course(post)} with norms after, {_course(pre)} with "
        f"norms before. The last layer has {format_number(ratio, 2)} times the gradient with "
        f"norms after, {depth} "
        f"({shallow} → {deep}): so those need warm-up."
    )


def _course(values: Numbers) -> str:
    """What becomes of numbers from the first to the last, in words."""
    first, last = float(values[0]), float(values[-1])
    ends = f"{format_number(first, 2)} → {format_number(last, 2)}"
    if last > _ALIKE * first:
        return f"grow ({ends})"
    return f"fall ({ends})" if _ALIKE * last < first else f"hardly change ({ends})"
