"""What parts and methods say of patches, over the picture: in Causes and in Across."""

from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot
from session_samples import Desk, info, states_of

from attnscope.figures import DARK, layout_cells
from attnscope.records import (
    METHODS,
    AttributeOutput,
    Attribution,
    Contribution,
    InfluenceRow,
    InfluenceShown,
    OutputAttributed,
    Picture,
    Request,
    ShowInfluence,
    StopWork,
    Token,
)
from attnscope.widgets import apply_theme
from attnscope.widgets.causes import AcrossPanel, CausesPanel

pytestmark = pytest.mark.qt
CAT, DOG = Token(id=0, piece="cat"), Token(id=1, piece="dog")


def desk_of_pictures() -> tuple[Desk, Picture]:
    """A model of pictures, and a picture of as many tokens as its text."""
    model = replace(
        info("encoder"), architecture="ViT", objective="classification", reads="picture", samples=()
    )
    desk = Desk().open(model)
    desk.session.texts.set_text("one two three four")
    desk.answer()
    traced = desk.session.traced
    assert traced is not None
    n_patches = len(traced.source) - 1
    pixels = np.full((4, 4 * n_patches, 3), 99, np.uint8)
    return desk, Picture(text=desk.session.text, pixels=pixels, n_rows=1, n_columns=n_patches, n_first=1)


def test_that_the_parts_lie_over_the_picture_until_the_bars_are_asked_for(qtbot: QtBot) -> None:
    (desk, picture), asked = desk_of_pictures(), list[Request]()
    states = states_of(desk.session, worker=asked.append)
    attributing, patching = states.attributing, states.patching
    panel = CausesPanel(desk.session, attributing, patching)
    qtbot.addWidget(panel)
    panel.resize(280, 440)
    panel.show()
    assert isinstance(asked[-1], AttributeOutput)
    part = Contribution(label="embedding", kind="embedding", value=0.5, stack="encoder")
    found = Attribution(
        contributions=(part,), position=0, token=CAT, answer=CAT, other=DOG, difference=0.5,
        reads=np.arange(picture.n_tokens, dtype=np.float32) / 8,
    )  # fmt: skip
    attributing.handle(
        OutputAttributed(number=asked[-1].number, attribution=found, candidates=(), picture=picture)
    )
    assert panel.patches.isVisible()
    assert not panel.area.isVisible()
    told: list[str] = []
    panel.pointed.connect(told.append)
    panel.patches.hovered.emit(0, 2)
    assert told[-1] == "patch 0,2: 0.375 logits"
    panel.patches.hovered.emit(-1, -1)
    assert told[-1] == ""
    spec = panel.figure_spec()
    assert spec is not None
    assert [cells.title for cells in spec.cells] == ["logit(cat) − logit(dog)", "Patches"]
    panel.picture_button.click()
    assert panel.area.isVisible()
    assert not panel.patches.isVisible()
    panel.show_mode("patching")
    assert panel.patching.corrupt.accessibleName() == "Second picture"
    assert patching.exchange.whats[0] == "head"
    assert patching.note == "Type the path of another picture above."
    apply_theme(panel, DARK)


def test_that_methods_lie_over_the_picture_and_the_flow_can_be_stopped(qtbot: QtBot) -> None:
    (desk, picture), asked = desk_of_pictures(), list[Request]()
    states = states_of(desk.session, worker=asked.append)
    state = states.across
    panel = AcrossPanel(desk.session, state, states.graph)
    qtbot.addWidget(panel)
    panel.resize(280, 460)
    panel.show()
    assert isinstance(asked[-1], ShowInfluence)
    traced = desk.session.traced
    assert traced is not None
    rows = tuple(
        InfluenceRow(method=m, weights=np.arange(picture.n_tokens, dtype=np.float32)) for m in METHODS
    )
    shown = InfluenceShown(
        number=asked[-1].number, position=0, keys=traced.source.tokens, rows=rows[:2], picture=picture,
        flow_done=1,
    )  # fmt: skip
    state.handle(shown)
    assert panel.maps_area.isVisible()
    assert not panel.area.isVisible()
    seen = {method for method, one in panel.maps.panels.items() if one.isVisible()}
    assert seen == {row.method for row in rows[:2]}
    assert panel.stop_button.isVisible()
    panel.stop_button.click()
    assert asked[-1] == StopWork(number=asked[-1].number, work="ShowInfluence")
    assert not panel.stop_button.isVisible()
    told: list[str] = []
    panel.pointed.connect(told.append)
    state.show_shares(False)
    raw = panel.maps.panels["raw"]
    raw.hovered.emit(0, 1)
    assert told[-1] == "raw, patch 0,1: 2 as computed"
    assert raw._shown is not None
    place = layout_cells(raw._area(), raw._shown).cell(0, 2).center().toPoint()
    qtbot.mouseClick(raw, Qt.MouseButton.LeftButton, pos=place)
    assert state.position == 3
    apply_theme(panel, DARK)
