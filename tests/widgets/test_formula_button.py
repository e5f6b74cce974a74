"""Formula and source of what a side panel of Explore shows, on a card that takes no height beside it."""

import pytest
from PySide6.QtCore import Qt, QTimer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMenu, QWidgetAction

from attnscope.figures import parse_formula
from attnscope.widgets import FormulaButton, FormulaLabel, NamedFormula, PlainLabel
from attnscope.widgets.causes import across_view, causes_view
from attnscope.widgets.explore import generation_panel

EVERY = [
    *across_view._SAID["table"],
    *across_view._SAID["graph"],
    *causes_view._SAID.values(),
    *(one for said in generation_panel._SAID.values() for one in said),
]


@pytest.mark.parametrize("said", EVERY, ids=lambda said: said.name)
def test_that_formulas_of_cards_can_be_set_and_words_below_them_need_no_setting(said: NamedFormula) -> None:
    assert said.formulas
    for formula in said.formulas:
        assert parse_formula(formula).parts
    for words in (said.name, said.symbols, said.source):
        assert not set("_^") & set(words)


def test_that_every_published_method_of_the_panels_has_its_source() -> None:
    sources = {said.name: said.source for said in EVERY}
    for name, author in {
        "rollout": "Abnar & Zuidema 2020",
        "flow": "Abnar & Zuidema 2020",
        "relevance": "Chefer, Gur & Wolf 2021",
        "graph": "Abnar & Zuidema 2020",
        "Direct logit attribution": "Elhage et al. 2021",
        "Activation patching": "Wang et al. 2022",
        "Top-p, nucleus sampling": "Holtzman et al. 2020",
        "Score of a beam with its length penalty": "Wu et al. 2016",
    }.items():
        assert author in sources[name]


@pytest.mark.qt
def test_that_a_click_opens_what_is_said_now_and_esc_closes_it(qtbot) -> None:
    said = [NamedFormula(name="first", formulas=("a = b/c",), source="Somebody 2020")]
    button = FormulaButton(lambda: said)
    qtbot.addWidget(button)
    button.show()
    said[:] = [
        NamedFormula(name="second", formulas=("q·k / √d", "d = 4"), symbols="d: width", source="Other 2021")
    ]
    seen: dict[str, object] = {}

    def look() -> None:
        card = button.findChild(QMenu)
        (action,) = (one for one in card.actions() if isinstance(one, QWidgetAction))
        inner = action.defaultWidget()
        seen["formulas"] = [label.text() for label in inner.findChildren(FormulaLabel)]
        seen["words"] = [label.text() for label in inner.findChildren(PlainLabel)]
        seen["name"] = inner.accessibleName()
        QTest.keyClick(card, Qt.Key.Key_Escape)
        seen["is_open"] = card.isVisible()

    QTimer.singleShot(100, look)
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: "is_open" in seen, timeout=5000)
    assert seen["formulas"] == ["q·k / √d\nd = 4"]
    assert seen["words"] == ["second", "d: width", "Other 2021"]
    assert seen["name"] == "second\nq·k / √d\nd = 4\nd: width\nOther 2021"
    assert seen["is_open"] is False
