"""What measuring found a head to do comes first: beside it, under its thumbnail, in a caption if wished."""

import dataclasses

import pytest
from figure_samples import spec
from session_samples import Desk, ref

from attnscope.figures.caption import caption_lines
from attnscope.figures.colours import LIGHT
from attnscope.records.measures import Estimate
from attnscope.records.roles import HeadCard, Role
from attnscope.viewmodels.heads.known_roles import known_roles
from attnscope.viewmodels.view_state import ViewState
from attnscope.widgets.explore.page import ExplorePage
from attnscope.widgets.export.dialog import ExportDialog
from attnscope.widgets.export.figures_offered import offered_figures

pytestmark = pytest.mark.qt


class Measured:
    """What the window reads of measured heads: one with a role, one with a leaning alone."""

    def __init__(self) -> None:
        self.cards: tuple[HeadCard, ...] = ()
        self._told = []

    def subscribe(self, callback):
        self._told.append(callback)
        return lambda: self._told.remove(callback)

    def role(self, row: int) -> str:
        return ("induction", "(first token)")[row]

    def measure(self) -> None:
        role = Role(
            name="induction",
            sentence="",
            strength=2.0,
            estimate=Estimate(value=0.9, low=0.8, high=1.0, n=8),
            measure="stripe",
        )
        self.cards = (
            HeadCard(head=ref(0, 1), sentence="", roles=(role,)),
            HeadCard(head=ref(1, 0), sentence="", roles=(), leaning="first"),
        )
        self.tell()

    def forget(self) -> None:
        self.cards = ()
        self.tell()

    def tell(self) -> None:
        for callback in self._told:
            callback("table")


def test_that_the_line_about_a_head_begins_with_its_role_once_it_is_known(qtbot):
    desk, heads = Desk().open(), Measured()
    page = ExplorePage(desk.session, ViewState(), LIGHT)
    qtbot.addWidget(page)
    page.offer_roles(heads)
    desk.session.select_heads((ref(0, 1),))
    desk.answer()
    before = page.inspector.line.text()
    heads.measure()
    assert page.inspector.line.text() == f"induction · {before}"
    assert known_roles(heads) == {ref(0, 1): "induction"}
    assert page.grid_panel.grid._marks().roles == {ref(0, 1): "induction"}
    desk.session.select_heads((ref(1, 0),))
    desk.answer()
    assert "first token)" not in page.inspector.line.text()
    heads.forget()
    desk.session.select_heads((ref(0, 1),))
    desk.answer()
    assert page.inspector.line.text() == before


def test_that_a_caption_tells_the_role_only_where_it_is_wished(qtbot):
    desk = Desk().open()
    desk.session.select_heads((ref(0, 1),))
    desk.answer()
    offered = offered_figures(desk.session, ViewState(), {}, roles={ref(0, 1): "induction"})
    dialog = ExportDialog(offered, "head")
    qtbot.addWidget(dialog)
    assert not any(line.startswith("Role") for line in caption_lines(dialog.spec()))
    dialog.choices.has_role.click()
    assert "Role: induction" in caption_lines(dialog.spec())
    bare = ExportDialog(offered_figures(desk.session, ViewState(), {}), "head")
    qtbot.addWidget(bare)
    assert bare.choices.has_role.isHidden()
    shown = spec("head")
    assert caption_lines(shown) == caption_lines(
        dataclasses.replace(shown, caption=dataclasses.replace(shown.caption, role=""))
    )
