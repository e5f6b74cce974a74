"""The panel of causes: bars that choose heads, boxes of answers, and the map of patches."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from pytestqt.qtbot import QtBot
from session_samples import Desk, ref, states_of

from attnscope.figures import DARK, LIGHT, attribution_cells
from attnscope.records import (
    AttributeOutput,
    Attribution,
    Candidate,
    Contribution,
    OutputAttributed,
    PatchMap,
    PatchTexts,
    Request,
    TextsPatched,
    Token,
)
from attnscope.widgets import apply_theme
from attnscope.widgets.causes import CausesPanel

pytestmark = pytest.mark.qt
ANSWER, OTHER = Token(id=6, piece="chat"), Token(id=7, piece="dort")


def shown(qtbot: QtBot) -> tuple[Desk, CausesPanel, list[Request], tuple[Any, Any]]:
    desk, asked = Desk().open(), list[Request]()
    states = states_of(desk.session, worker=asked.append)
    attributing, patching = states.attributing, states.patching
    panel = CausesPanel(desk.session, attributing, patching)
    qtbot.addWidget(panel)
    panel.resize(280, 440)
    panel.show()
    return desk, panel, asked, (attributing, patching)


def parts() -> Attribution:
    heads = [ref(layer, k, "decoder") for layer in range(2) for k in range(2)]
    found = [
        Contribution(label=h.label, kind="head", value=v, stack="decoder", layer=h.layer, head=h)
        for h, v in zip(heads, (0.25, -1.5, 3.0, 0.5), strict=True)
    ]
    found.insert(0, Contribution(label="token", kind="embedding", value=1.0, stack="decoder"))
    found.append(Contribution(label="L1 norm bias", kind="bias", value=-0.25, stack="decoder", layer=1))
    return Attribution(
        contributions=tuple(found), position=0, token=ANSWER, answer=ANSWER, other=OTHER, difference=3.0
    )


def test_that_a_click_on_a_bar_selects_its_head_and_answers_can_be_typed(qtbot: QtBot) -> None:
    desk, panel, asked, (attributing, _) = shown(qtbot)
    candidates = (Candidate(token=ANSWER, probability=0.75), Candidate(token=OTHER, probability=0.125))
    attributing.handle(OutputAttributed(number=asked[0].number, attribution=parts(), candidates=candidates))
    assert panel.statement.full_text() == "logit(chat) − logit(dort) = 3"
    assert panel.sum.text() == "6 parts: 3"
    bars = panel.bars
    told: list[str] = []
    panel.pointed.connect(told.append)
    qtbot.mouseClick(bars, Qt.MouseButton.LeftButton, pos=bars.row_rect(0).center().toPoint())
    assert desk.session.selection == (ref(1, 0, "decoder"),)
    qtbot.keyClick(bars, Qt.Key.Key_Home)
    qtbot.keyClick(bars, Qt.Key.Key_Down)
    assert told[-1] == "decoder L0H1: −1.5 logits, −50.0 % of the difference"
    qtbot.keyClick(bars, Qt.Key.Key_Return)
    assert desk.session.selection == (ref(0, 1, "decoder"),)
    for palette in (LIGHT, DARK):
        apply_theme(panel, palette)
        image = bars.grab().toImage()
        middle = bars.row_rect(0).center().y()
        bar, below = (
            image.pixelColor(QPoint(bars.width() // 2 + 20, round(y))) for y in (middle, middle + 8)
        )
        assert bar != below
    desk.session.head_changes.toggle_gate(ref(0, 1, "decoder"))
    assert bars.words(1).endswith("its gate is 0")
    edit = panel.answers.answer.lineEdit()
    assert edit is not None
    edit.setText("chien")
    qtbot.keyClick(edit, Qt.Key.Key_Return)
    assert (attributing.answer, attributing.other) == ("chien", None)
    panel.answers.other.setCurrentIndex(2)
    panel.answers.other.activated.emit(2)
    assert attributing.other == OTHER.id
    spec = panel.figure_spec()
    assert spec is not None
    assert np.nansum(spec.cells[0].values) == pytest.approx(3.0)
    assert attribution_cells(parts()).rows == ("embedding", "decoder 0", "decoder 1")
    assert attribution_cells(replace(parts(), difference=-3.0)).note.startswith("= −3 logits")


def test_that_a_map_of_heads_is_walked_and_chosen_from(qtbot: QtBot) -> None:
    desk, panel, asked, (_, patching) = shown(qtbot)
    qtbot.mouseClick(panel.modes["patching"], Qt.MouseButton.LeftButton)
    view = panel.patching
    assert not view.run_button.isEnabled()
    view.corrupt.clear()
    qtbot.keyClicks(view.corrupt, "the dog sleeps")
    patching.exchange.choose("head")
    qtbot.mouseClick(view.run_button, Qt.MouseButton.LeftButton)
    last = asked[-1]
    assert isinstance(last, PatchTexts)
    assert (last.corrupt, last.kind) == ("the dog sleeps", "head")
    assert (view.stop_button.isVisible(), view.run_button.isVisible()) == (True, False)
    values = np.array([[0.1, 0.2], [0.3, 0.9]], np.float32)
    found = PatchMap(
        kind="head", donor="clean", receiver="corrupt", rows=("encoder 0", "encoder 1"), columns=("H0", "H1"),
        patched=values, answer=ANSWER, other=OTHER, clean_difference=3.0, corrupt_difference=-1.0,
    )  # fmt: skip
    patching.handle(TextsPatched(number=last.number, patched=found, position=1, candidates=()))
    assert view.run_button.isVisible()
    assert view.sentence.text() == "Strongest: encoder L1H1 restores 90 % of the difference."
    for key in (Qt.Key.Key_Down, Qt.Key.Key_Right, Qt.Key.Key_Return):
        qtbot.keyClick(view.cells, key)
    head = desk.session.primary
    assert head in (ref(0, 0), ref(0, 1), ref(1, 0), ref(1, 1))
    assert view.sentence.text().startswith(f"Encoder {head.label}" if head else "?")
    spec = panel.figure_spec()
    assert spec is not None
    assert (spec.view, spec.cells[0].limit) == ("lab", 1.0)
    assert panel.export_button.isEnabled()
    qtbot.mouseClick(panel.modes["parts"], Qt.MouseButton.LeftButton)
    assert isinstance(asked[0], AttributeOutput)
    assert not panel.export_button.isEnabled()
