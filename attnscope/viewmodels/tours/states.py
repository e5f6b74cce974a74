"""What a tour looks at and works on: the states of the window, and its tabs and labs by name."""

from dataclasses import dataclass
from typing import Protocol

from attnscope.labs.lab import LabWords
from attnscope.records.maps import HeadMap
from attnscope.records.tokens import Token
from attnscope.viewmodels.causes.inside import InsideState
from attnscope.viewmodels.heads.pruning_curves import CurvesState
from attnscope.viewmodels.heads.state import HeadsState
from attnscope.viewmodels.positions import PositionsState
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.training.state import TrainingState
from attnscope.viewmodels.view_state import ViewState


class TourPlaces(Protocol):
    """The parts of the window that no state knows of."""

    def show_tab(self, page: str, tab: str) -> None:
        """Bring a tab of a page to the front; raises KeyError for one there is not."""

    def shown_tab(self, page: str) -> str:
        """The tab in front, empty for a page without tabs."""

    def show_lab(self, name: str) -> None:
        """Turn to a lab; raises KeyError for one there is not."""

    def lab_words(self) -> LabWords | None:
        """What the lab that is shown says; None when it says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TourStates:
    """Everything a tour reads or changes."""

    session: Session
    view: ViewState
    inside: InsideState
    heads: HeadsState
    curves: CurvesState
    training: TrainingState
    positions: PositionsState
    places: TourPlaces

    @property
    def shown_map(self) -> HeadMap | None:
        """The map of the head shown large, when it is exact."""
        session = self.session
        return None if session.tracing.is_stale else session.maps.of(session.primary)


def token_place(tokens: tuple[Token, ...], name: str | None) -> int | None:
    """Where the token named `piece`, or `piece#2`, the second of the same, stands; None: nowhere."""
    if not name:
        return None
    piece, _, number = name.rpartition("#") if "#" in name[1:] else (name, "", "1")
    places = [k for k, token in enumerate(tokens) if token.piece.strip() == piece]
    wanted = int(number) - 1 if number.isdigit() else -1
    return places[wanted] if 0 <= wanted < len(places) else None
