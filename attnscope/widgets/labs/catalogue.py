"""The widgets of the labs: what the page needs of one, and how it is made.

It is made when the lab is first looked at, because the plotting library is slow to import: what makes it
imports it. A lab that is drawn from its choice needs nothing here.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast, runtime_checkable

from PySide6.QtWidgets import QWidget

from attnscope.figures.spec import FigureSpec
from attnscope.labs.lab import AnyLab, Lab, LabEntry
from attnscope.viewmodels.labs.controls import LabControls
from attnscope.viewmodels.labs.states import LabStates


class LabWidget(Protocol):
    """What the page needs of a lab, which is a QWidget besides; the signals carry a text and nothing."""

    hover_text: Any
    export_wanted: Any

    def figure_spec(self) -> FigureSpec | None:
        """What Ctrl+E exports; None while there is nothing to export."""
        ...


@runtime_checkable
class HasControls(Protocol):
    """A lab whose controls can be undone, brought back to the example and kept."""

    @property
    def controls(self) -> LabControls[Any]:
        """What is set in it."""
        ...


@runtime_checkable
class LinksToPages(Protocol):
    """A lab with a way to another page; the signal carries the page's key."""

    page_wanted: Any


def make_lab(entry: LabEntry, states: LabStates) -> QWidget:
    """The widget of a lab: its own, or the view of any lab that is drawn from its choice.

    Those that ask the worker get their own of the `states`.
    """
    own = _OWN.get(entry.name)
    if own is not None:
        return own(entry, states)
    if not isinstance(entry, Lab):
        raise TypeError(f"the lab {entry.name} has neither a picture nor a widget")
    if entry.asks:
        from attnscope.widgets.labs.experiment_desk import make_asking_view

        return make_asking_view(entry, states.experiments)
    from attnscope.widgets.labs.lab_view import LabView

    return LabView(entry)


def _cost(entry: LabEntry, _states: LabStates) -> QWidget:
    from attnscope.widgets.labs.cost_view import make_cost_view

    return make_cost_view(cast("AnyLab", entry))


def _heads(entry: LabEntry, _states: LabStates) -> QWidget:
    from attnscope.widgets.labs.cost_view import make_heads_view

    return make_heads_view(cast("AnyLab", entry))


def _merges(_entry: LabEntry, states: LabStates) -> QWidget:
    from attnscope.widgets.labs.tokenizers_view import MergesView

    return MergesView(states.merges)


def _tokenizers(_entry: LabEntry, states: LabStates) -> QWidget:
    from attnscope.widgets.labs.tokenizers_view import TokenizersView

    return TokenizersView(states.tokenizers)


def _vocabulary(_entry: LabEntry, states: LabStates) -> QWidget:
    from attnscope.widgets.labs.vocabulary_view import VocabularyView

    return VocabularyView(states.vocabulary)


_OWN: Mapping[str, Callable[[LabEntry, LabStates], QWidget]] = {
    "Cost by length": _cost,
    "Cost of heads": _heads,
    "Merges replayed": _merges,
    "Tokenizers compared": _tokenizers,
    "Vocabulary": _vocabulary,
}
