"""Every lab of the page Labs: its group, its name, what it shows, and how it is made.

A lab is a widget that is made when it is first looked at, because the plotting library is slow to import:
what makes it imports it. To add a lab, write its maker here and put its entry into `LABS`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args, runtime_checkable

from PySide6.QtWidgets import QWidget

from attnscope.figures.spec import FigureSpec
from attnscope.viewmodels.labs.controls import LabControls

LabGroup = Literal["Scores", "Masks", "Positions", "Depth and training", "Attention or recurrence", "Tokens"]
GROUPS: tuple[LabGroup, ...] = get_args(LabGroup)
"""The groups in the order of the list; one without a lab is not shown."""


class LabWidget(Protocol):
    """What the page needs of a lab, which is a QWidget besides; the signals carry a text and nothing."""

    hover_text: Any
    export_wanted: Any

    def figure_spec(self) -> FigureSpec | None:
        """What Ctrl+E exports; None while there is nothing to export."""
        ...


@runtime_checkable
class TakesOffers(Protocol):
    """A lab that asks the worker: it is offered every state that the page was offered, and keeps its own."""

    def offer(self, state: object) -> None:
        """Keep a state that is known here; leave any other."""
        ...


@runtime_checkable
class HasControls(Protocol):
    """A lab whose controls can be undone, brought back to the example and kept."""

    @property
    def controls(self) -> LabControls[Any] | None:
        """What is set in it; None until it has been offered its state."""
        ...


@runtime_checkable
class LinksToPages(Protocol):
    """A lab with a way to another page; the signal carries the page's key."""

    page_wanted: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class LabEntry:
    """One lab; `shows` is one line for tooltips and the command palette; `name` is its only key."""

    group: LabGroup
    name: str
    shows: str
    make: Callable[[], QWidget]


def _regression() -> QWidget:
    from attnscope.widgets.labs.lab_view import LabView
    from attnscope.widgets.labs.regression_plan import regression_plan

    return LabView(regression_plan())


def _saturation() -> QWidget:
    from attnscope.widgets.labs.lab_view import LabView
    from attnscope.widgets.labs.saturation_plan import saturation_plan

    return LabView(saturation_plan())


def _masks() -> QWidget:
    from attnscope.widgets.labs.lab_view import LabView
    from attnscope.widgets.labs.mask_plan import mask_plan

    return LabView(mask_plan())


def _order() -> QWidget:
    from attnscope.widgets.labs.lab_view import LabView
    from attnscope.widgets.labs.order_plan import order_plan

    return LabView(order_plan())


def _offsets() -> QWidget:
    from attnscope.widgets.labs.lab_view import LabView
    from attnscope.widgets.labs.offset_plan import offset_plan

    return LabView(offset_plan())


def _cost() -> QWidget:
    from attnscope.widgets.labs.cost_view import make_cost_view

    return make_cost_view()


def _collapse() -> QWidget:
    from attnscope.widgets.labs.experiment_desk import make_asking_view
    from attnscope.widgets.labs.reach_plan import collapse_plan

    return make_asking_view(collapse_plan(), lambda _, state: state.own_question())


def _placement() -> QWidget:
    from attnscope.widgets.labs.experiment_desk import make_asking_view
    from attnscope.widgets.labs.first_steps_plans import placement_plan

    return make_asking_view(placement_plan(), lambda choice, _: choice.question)


def _warmup() -> QWidget:
    from attnscope.widgets.labs.experiment_desk import make_asking_view
    from attnscope.widgets.labs.first_steps_plans import warmup_plan

    return make_asking_view(warmup_plan(), lambda choice, _: choice.question)


def _longer() -> QWidget:
    from attnscope.widgets.labs.experiment_desk import make_asking_view
    from attnscope.widgets.labs.first_steps_plans import longer_plan

    return make_asking_view(longer_plan(), lambda choice, _: choice.question)


def _reach() -> QWidget:
    from attnscope.widgets.labs.lab_view import LabView
    from attnscope.widgets.labs.reach_plan import reach_plan

    return LabView(reach_plan())


def _quality() -> QWidget:
    from attnscope.widgets.labs.experiment_desk import make_asking_view
    from attnscope.widgets.labs.quality_plan import quality_plan

    return make_asking_view(quality_plan(), lambda choice, _: choice.question)


def _merges() -> QWidget:
    from attnscope.widgets.labs.merges_view import MergesView

    return MergesView()


def _tokenizers() -> QWidget:
    from attnscope.widgets.labs.tokenizers_view import TokenizersView

    return TokenizersView()


def _vocabulary() -> QWidget:
    from attnscope.widgets.labs.vocabulary_view import VocabularyView

    return VocabularyView()


LABS: tuple[LabEntry, ...] = (
    LabEntry(
        group="Scores",
        name="Kernel regression",
        shows="Attention is kernel regression: a movable query, the weight of each sample, the fitted curve",
        make=_regression,
    ),
    LabEntry(
        group="Scores",
        name="Scaling by √d",
        shows="Why scores are divided by √d: without it the softmax saturates and nothing is learnt",
        make=_saturation,
    ),
    LabEntry(
        group="Masks",
        name="Masks as structure",
        shows="Causal, windowed, dilated and sparse masks, and how many layers it takes to reach a token",
        make=_masks,
    ),
    LabEntry(
        group="Positions",
        name="Order blindness",
        shows="Without positions a sentence is a set of words: the same outputs in any order",
        make=_order,
    ),
    LabEntry(
        group="Positions",
        name="Past the trained length",
        shows="What sinusoidal, rotary, learned, T5 and ALiBi positions do at offsets never trained",
        make=_offsets,
    ),
    LabEntry(
        group="Positions",
        name="Longer texts",
        shows="Tiny models trained here, one for each kind of positions, read past the trained length",
        make=_longer,
    ),
    LabEntry(
        group="Depth and training",
        name="Rank collapse",
        shows="Without skips all tokens become the same vector, doubly exponentially with depth",
        make=_collapse,
    ),
    LabEntry(
        group="Depth and training",
        name="Norms before or after",
        shows="Gradients of each layer at the first step, with pre-LN and post-LN, against the depth",
        make=_placement,
    ),
    LabEntry(
        group="Depth and training",
        name="Why warm-up",
        shows="Sizes of Adam's first updates with and without warm-up and with RAdam, and what follows",
        make=_warmup,
    ),
    LabEntry(
        group="Attention or recurrence",
        name="Gradient by distance",
        shows="How much gradient is left many tokens back: tanh network, LSTM and attention",
        make=_reach,
    ),
    LabEntry(
        group="Attention or recurrence",
        name="Quality by length",
        shows="How well longer rows are written with one vector, and with attention: trained and read here",
        make=_quality,
    ),
    LabEntry(
        group="Attention or recurrence",
        name="Cost by length",
        shows="Time and memory against the length of the text, measured here and on paper",
        make=_cost,
    ),
    LabEntry(
        group="Tokens",
        name="Merges replayed",
        shows="How a typed text becomes tokens: BPE merge by merge, WordPiece, Unigram",
        make=_merges,
    ),
    LabEntry(
        group="Tokens",
        name="Tokenizers compared",
        shows="Words, characters, BPE, WordPiece, Unigram and bytes trained on your text, at several sizes",
        make=_tokenizers,
    ),
    LabEntry(
        group="Tokens",
        name="Vocabulary",
        shows="Every piece of the open model's tokenizer: searched, sorted, in bytes and characters",
        make=_vocabulary,
    ),
)
"""Every lab, in the order of its group's list."""


def labs_of(group: LabGroup, labs: tuple[LabEntry, ...] = LABS) -> tuple[LabEntry, ...]:
    """The labs of one group, as they are listed."""
    return tuple(entry for entry in labs if entry.group == group)
