"""What the labs of first steps and of longer texts draw: the same for the screen and for files."""

import numpy as np

from attnscope.records.charts import Chart, Series
from attnscope.records.experiments import SCHEMES, Place, Warming
from attnscope.viewmodels.labs.longer_texts import SCHEME_NAMES, Longer
from attnscope.viewmodels.labs.norm_placement import PLACE_NAMES, Numbers, Placement
from attnscope.viewmodels.labs.warmup import CHANCE, WARMING_NAMES, Warmup

BLUE, ORANGE, GREEN, PURPLE, OCHRE, SKY, _, OLIVE = range(8)
_OF_PLACE: dict[Place, int] = {"post": ORANGE, "pre": BLUE}
_OF_WARMING: dict[Warming, int] = {"none": ORANGE, "warmup": BLUE, "radam": GREEN}
_OF_SCHEME = dict(zip(SCHEMES, (BLUE, GREEN, ORANGE, OCHRE, PURPLE, SKY), strict=False))


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


def warmup_charts(shown: Warmup) -> tuple[Chart, ...]:
    """How much parameters move at a step, the loss, and the typical update."""
    at = float(shown.step)
    guess = Series(
        name="a guess", xs=shown.steps, ys=np.full(len(shown.steps), CHANCE), colour=OLIVE, is_quiet=True
    )

    def lines(values: dict[Warming, Numbers]) -> tuple[Series, ...]:
        return tuple(
            Series(name=WARMING_NAMES[w], xs=shown.steps, ys=ys, colour=_OF_WARMING[w])
            for w, ys in values.items()
        )

    return (
        Chart(
            title="Updates",
            x_label="size of the update |Δθ|",
            y_label=f"share of the parameters at step {shown.step}",
            series=tuple(
                Series(name=WARMING_NAMES[w], xs=shown.sizes, ys=ys, colour=_OF_WARMING[w])
                for w, ys in shown.shares.items()
            ),
            is_log_x=True,
        ),
        Chart(
            title="Loss",
            x_label="step",
            y_label="nats a token",
            series=(guess, *lines(shown.losses)),
            marks=((at, ""),),
        ),
        Chart(
            title="Typical update",
            x_label="step",
            y_label="median of |Δθ|",
            series=lines(shown.typical),
            is_log_y=True,
            marks=((at, ""),),
        ),
    )


def longer_charts(shown: Longer) -> tuple[Chart, ...]:
    """Loss by place."""
    guess = np.full(len(shown.places), shown.chance)
    return (
        Chart(
            title="Loss",
            x_label="place in the text",
            y_label="nats a token, mean of 64 new texts",
            series=(
                Series(name="a guess", xs=shown.places, ys=guess, colour=OLIVE, is_quiet=True),
                *(
                    Series(name=SCHEME_NAMES[s], xs=shown.places, ys=ys, colour=_OF_SCHEME.get(s, OLIVE))
                    for s, ys in shown.losses.items()
                ),
            ),
            marks=((float(shown.n_trained), f"trained: {shown.n_trained}"),),
        ),
    )


def _by_place(place: Place, xs: Numbers, ys: Numbers) -> Series:
    return Series(name=PLACE_NAMES[place], xs=xs, ys=ys, colour=_OF_PLACE[place], has_points=True)
