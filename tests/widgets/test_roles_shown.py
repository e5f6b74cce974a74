"""What measuring found a head to do comes first: beside it, under its thumbnail, in a caption if wished."""

import dataclasses
from typing import Any

import pytest
from figure_samples import spec
from heads_fakes import make_cards, make_table
from PySide6.QtCore import QPointF
from PySide6.QtGui import QAction
from session_samples import Desk, ref, state_of, states_of

from attnscope.figures import caption_lines
from attnscope.records import Findings, HeadRef, HeadsMeasured, ModelLoaded
from attnscope.viewmodels import ViewState
from attnscope.widgets import head_offers, plain_tooltip
from attnscope.widgets.explore import ExplorePage, GridPanel, switch_rect
from attnscope.widgets.export import ExportDialog, offered_figures
from attnscope.widgets.window import StatusBar

pytestmark = pytest.mark.qt


def measured(desk: Desk, head: HeadRef) -> Any:
    """Heads measured over texts: `head` attends to the previous token, the others have no role."""
    posted = []
    state = state_of("heads", posted.append, session=desk.session)
    state.run()
    heads = (head, *(h for site in desk.session.model.sites for h in site.heads if h != head))
    findings = Findings(table=make_table(heads), cards=make_cards(heads))
    state.handle(HeadsMeasured(number=posted[-1].number, found=findings))
    return state


def test_that_the_line_about_a_head_begins_with_its_role_once_it_is_known(qtbot):
    desk, view = Desk().open(), ViewState()
    page = ExplorePage(states_of(desk.session), view)
    bar = StatusBar(desk.session, view, undo=QAction(), redo=QAction())
    for widget in (page, bar):
        qtbot.addWidget(widget)
    desk.session.select_heads((ref(0, 1),))
    desk.answer()
    before = page.inspector.line.text()
    state = measured(desk, ref(0, 1))
    assert desk.session.roles == {ref(0, 1): "previous token"}
    assert page.inspector.line.text() == f"previous token · {before}"
    assert page.grid_panel.grid._marks.roles == desk.session.roles
    view.set_hovered_head(ref(0, 1))
    assert bar.cell.full_text().startswith("L0H1 previous token · ")
    details = {offer.item.title: offer.item.detail for offer in head_offers(desk.session, lambda: None)}
    assert details["L0H1 encoder"].startswith("previous token · ")
    desk.session.select_heads((ref(1, 0),))
    desk.answer()
    assert "first token)" not in page.inspector.line.text()
    state.handle(ModelLoaded(number=0, info=desk.session.model))
    desk.session.select_heads((ref(0, 1),))
    desk.answer()
    assert page.inspector.line.text() == before


def test_that_the_thumbnail_under_the_pointer_names_its_role_and_a_switch_itself(qtbot):
    desk = Desk().open()
    desk.session.select_heads((ref(1, 0),))
    desk.answer()
    panel = GridPanel(desk.session, ViewState(), states_of(desk.session).tints)
    qtbot.addWidget(panel)
    panel.resize(480, 420)
    panel.show()
    measured(desk, ref(0, 1))
    grid = panel.grid
    layout = grid.layout_now()
    for head, words in ((ref(0, 1), "L0H1 · previous token"), (ref(1, 0), "")):
        box = layout.box(*layout.place(head))
        qtbot.mouseMove(grid, QPointF(box.left() + 3, box.bottom() - 3).toPoint())
        qtbot.waitUntil(lambda head=head: grid._marks.hovered == head)
        assert grid.toolTip() == plain_tooltip(words)
    row, column = layout.place(ref(0, 1))
    qtbot.mouseMove(grid, switch_rect(layout.box(row, column)).center().toPoint())
    qtbot.waitUntil(lambda: "Turn this head off" in grid.toolTip())


def test_that_a_caption_tells_the_role_only_where_it_is_wished(qtbot):
    desk = Desk().open()
    desk.session.select_heads((ref(0, 1),))
    desk.answer()
    desk.session.know_roles({ref(0, 1): "induction"})
    offered = offered_figures(desk.session, ViewState(), {})
    dialog = ExportDialog(offered, "head")
    qtbot.addWidget(dialog)
    assert not any(line.startswith("Role") for line in caption_lines(dialog.spec()))
    dialog.choices.has_role.click()
    assert "Role: induction" in caption_lines(dialog.spec())
    desk.session.know_roles({})
    bare = ExportDialog(offered_figures(desk.session, ViewState(), {}), "head")
    qtbot.addWidget(bare)
    assert bare.choices.has_role.isHidden()
    shown = spec("head")
    assert caption_lines(shown) == caption_lines(
        dataclasses.replace(shown, caption=dataclasses.replace(shown.caption, role=""))
    )
