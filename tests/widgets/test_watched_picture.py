"""The watched text of a run when it names a picture: a head over it, and the query that one chooses."""

from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot
from training_fakes import traced

from attnscope.records import HeadMap, HeadRef, Picture, Request, Token, TraceText
from attnscope.viewmodels import Requests
from attnscope.viewmodels.training import TrainingState
from attnscope.widgets.explore import PictureView
from attnscope.widgets.training import WatchPanel

pytestmark = pytest.mark.qt
PICTURE = Picture(text="a b", pixels=np.zeros((4, 6, 3), np.uint8), n_rows=2, n_columns=3, n_first=1)


def _answer(posted: list[Request], state: TrainingState, picture: Picture | None) -> None:
    request = [one for one in posted if isinstance(one, TraceText)][-1]
    told = traced(request, 5)
    head = told.grids[0].site.heads[0]
    n = 7 if picture is not None else 3
    tokens = tuple(Token(id=i, piece=str(i)) for i in range(n))
    weights = np.full((n, n), 1 / n, dtype=np.float32)
    shown = HeadMap(
        head=HeadRef(stack=head.stack, layer=0, head=head.head), queries=tokens, keys=tokens, weights=weights
    )
    state.watch.handle(replace(told, grids=told.grids[:1], maps=(shown,), picture=picture))


@pytest.fixture
def state() -> tuple[TrainingState, list[Request]]:
    posted: list[Request] = []
    state = TrainingState(Requests(posted.append))
    state.watch.begin_run(is_live=True)
    state.watch.set_text("a b")
    return state, posted


def test_that_a_head_lies_over_the_picture_and_a_patch_can_be_chosen(
    state: tuple[TrainingState, list[Request]], qtbot: QtBot
) -> None:
    watched, posted = state
    panel = WatchPanel(watched, None)
    qtbot.addWidget(panel)
    panel.resize(900, 400)
    panel.show()
    view = panel.findChild(PictureView)
    assert view is not None
    _answer(posted, watched, PICTURE)
    panel.show_state()
    assert view.isVisible()
    figure = view.figure()
    assert figure is not None
    assert (figure.picture, figure.query) == (PICTURE, 0)
    qtbot.keyClick(view, Qt.Key.Key_Down)
    qtbot.keyClick(view, Qt.Key.Key_Right)
    figure = view.figure()
    assert figure is not None
    assert figure.query == 2
    _answer(posted, watched, None)
    panel.show_state()
    assert not view.isVisible()


def _view(watched: TrainingState, posted: list[Request], qtbot: QtBot) -> tuple[WatchPanel, PictureView]:
    """A panel that watches, and its picture."""
    panel = WatchPanel(watched, None)
    qtbot.addWidget(panel)
    panel.resize(900, 400)
    panel.show()
    view = panel.findChild(PictureView)
    assert view is not None
    assert view.figure() is None
    _answer(posted, watched, PICTURE)
    panel.show_state()
    return panel, view


def _query(view: PictureView) -> int:
    figure = view.figure()
    assert figure is not None
    return figure.query


def test_that_the_query_stays_while_the_model_learns(
    state: tuple[TrainingState, list[Request]], qtbot: QtBot
) -> None:
    watched, posted = state
    _panel, view = _view(watched, posted, qtbot)
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Right, Qt.Key.Key_Down):
        qtbot.keyClick(view, key)
    assert _query(view) == 5
    _answer(posted, watched, PICTURE)
    assert _query(view) == 5


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        ("D", 1),
        ("L", 0),
        ("DU", 0),
        ("DRD", 5),
        ("DRDRR", 6),
        ("DDL", 4),
    ],
)
def test_that_arrows_walk_within_the_picture_and_up_to_the_class_token(
    keys: str, found: int, state: tuple[TrainingState, list[Request]], qtbot: QtBot
) -> None:
    _panel, view = _view(*state, qtbot)
    for key in keys:
        names = {"D": Qt.Key.Key_Down, "U": Qt.Key.Key_Up, "L": Qt.Key.Key_Left, "R": Qt.Key.Key_Right}
        qtbot.keyClick(view, names[key])
    assert _query(view) == found
