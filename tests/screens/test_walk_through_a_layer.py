"""From a head, step by step, through the rest of its layer, from layer to layer, to the unembedding."""

from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from attnscope.app import Program
from attnscope.records import HeadRef
from attnscope.widgets.explore.ask_panel import _WalkedEdit

pytestmark = [pytest.mark.qt, pytest.mark.slow]


def test_that_enter_goes_on_from_a_head_and_arrows_walk_to_the_unembedding(
    start: Callable[..., Program], qtbot: QtBot
) -> None:
    program = start("stories")
    session, page, asking = program.session, program.window.pages.explore, program.states.asking
    session.select_heads((HeadRef(stack="decoder", layer=1, head=0),))
    program.window.view.show_view("inside")
    inside = page.head_panel.inside
    qtbot.waitUntil(lambda: inside.state.inside is not None, timeout=30_000)
    inside.state.choose_query(2)
    qtbot.keyClick(inside.picture, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: asking.answer is not None and not asking.is_busy, timeout=30_000)
    assert page.ask.isVisible()
    assert asking.question.name == "layer-steps"
    piece = inside.state.tokens[2].piece
    model = session.model
    assert model is not None
    n_layers = 1 + max(site.layer for site in model.sites)

    def sentence() -> str:
        return page.ask.sentence.text()

    assert sentence().startswith(f"Layer 1 of 0–{n_layers - 1}, token 2 ({piece}): ")
    layer = page.ask.options.findChildren(_WalkedEdit)[0]
    for at in range(2, n_layers):
        layer.on.click()
        qtbot.waitUntil(lambda at=at: sentence().startswith(f"Layer {at} of"), timeout=30_000)
    assert layer.on.isEnabled()
    layer.edit.setFocus()
    qtbot.keyClick(layer.edit, Qt.Key.Key_Up)
    qtbot.waitUntil(lambda: "logits" in sentence(), timeout=30_000)
    assert layer.edit.text() == str(n_layers)
    assert not layer.on.isEnabled()
    assert [part.columns[0] for part in page.ask.answer.tables] == ["step", "token"]
    layer.back.click()
    qtbot.waitUntil(lambda: sentence().startswith(f"Layer {n_layers - 1} of"), timeout=30_000)
