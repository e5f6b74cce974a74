"""The menu of the large map, the key that knocks out an edge, and the list that takes changes back."""

import pytest
from PySide6.QtCore import Qt
from session_samples import Desk, ref

from attnscope.figures import weight_text
from attnscope.records import MakeUniform, RemoveEdge
from attnscope.viewmodels import Cell
from attnscope.viewmodels.session import knocked_out
from attnscope.widgets.explore import ChangeList, HeadInspector, HeadView, head_menu

pytestmark = pytest.mark.qt


@pytest.fixture
def desk() -> Desk:
    desk = Desk().open()
    desk.session.select_heads((ref(0, 1),))
    desk.answer()
    return desk


def press(menu, start: str) -> None:
    next(a for a in menu.actions() if a.text().removeprefix("✓ ").startswith(start)).trigger()


def test_that_the_menu_knocks_out_the_edge_under_the_cursor_and_puts_it_back(qtbot, desk):
    session = desk.session
    parent = ChangeList(session)
    qtbot.addWidget(parent)
    shown = session.maps.of(ref(0, 1))
    press(head_menu(session, shown, (1, 2), (), parent), "Knock out the edge")
    assert session.interventions == (RemoveEdge(head=ref(0, 1), query=1, key=2),)
    press(head_menu(session, shown, (1, 2), (), parent), "Put back the edge")
    assert session.interventions == ()
    press(head_menu(session, shown, None, (), parent), "Uniform")
    assert session.interventions == (MakeUniform(head=ref(0, 1)),)
    press(head_menu(session, shown, None, (), parent), "Undo all")
    assert session.interventions == ()


def test_that_a_pattern_is_copied_from_one_head_to_another(qtbot, desk):
    session = desk.session
    parent = ChangeList(session)
    qtbot.addWidget(parent)
    press(head_menu(session, session.maps.of(ref(0, 1)), None, (), parent), "Copy the pattern")
    own = head_menu(session, session.maps.of(ref(0, 1)), None, (), parent)
    assert not next(a for a in own.actions() if a.text().startswith("Use the pattern")).isEnabled()
    session.select_heads((ref(1, 0),))
    desk.answer()
    press(head_menu(session, session.maps.of(ref(1, 0)), None, (), parent), "Use the pattern of L0H1")
    assert session.interventions[0].sentence.startswith("L1H0: the weights of L0H1")


def test_that_the_list_shows_each_change_and_takes_it_back(qtbot, desk):
    session = desk.session
    changes = ChangeList(session)
    qtbot.addWidget(changes)
    assert (changes.label.text(), changes.back.isHidden()) == ("", True)
    uniform = MakeUniform(head=ref(0, 0))
    edges = tuple(RemoveEdge(head=ref(0, 1), query=q, key=0) for q in range(3))
    session.head_changes.intervene((uniform, *edges))
    assert not changes.back.isHidden()
    assert changes.more.text() == "+3 ▾"
    assert len(changes.more.menu().actions()) == 3
    qtbot.mouseClick(changes.back, Qt.MouseButton.LeftButton)
    assert session.interventions == (uniform, *edges[1:])
    changes.more.menu().actions()[-1].trigger()
    assert session.interventions == edges[1:]
    changes.more.menu().actions()[0].trigger()
    assert session.interventions == edges[1:2]
    assert changes.more.isHidden()


def test_that_delete_knocks_out_the_cell_walked_to(qtbot, desk):
    view = HeadView()
    qtbot.addWidget(view)
    view.resize(400, 300)
    view.set_map(desk.session.maps.of(ref(0, 1)))
    with qtbot.assertNotEmitted(view.edge_toggled):
        qtbot.keyClick(view, Qt.Key.Key_Delete)
    qtbot.keyClick(view, Qt.Key.Key_Right)
    qtbot.keyClick(view, Qt.Key.Key_Right)
    with qtbot.waitSignal(view.edge_toggled) as told:
        qtbot.keyClick(view, Qt.Key.Key_Delete)
    assert told.args == [0, 1]


def test_that_nothing_below_moves_however_many_changes_there_are(qtbot, desk):
    inspector = HeadInspector(desk.session)
    qtbot.addWidget(inspector)
    heights = [(inspector.changes.height(), inspector.minimumHeight())]
    for key in (1, 2, 0):
        desk.session.head_changes.intervene(
            (*desk.session.interventions, RemoveEdge(head=ref(0, 1), query=2, key=key))
        )
        heights.append((inspector.changes.height(), inspector.minimumHeight()))
    assert len(set(heights)) == 1


def test_that_a_cell_knocked_out_is_not_called_masked(qtbot, desk):
    edges = (RemoveEdge(head=ref(0, 1), query=2, key=1), MakeUniform(head=ref(0, 1)))
    assert knocked_out(edges, ref(0, 1)) == {(2, 1)}
    assert knocked_out(edges, ref(0, 0)) == frozenset()
    assert Cell(query="a", key="b", weight=None, is_knocked_out=True).sentence == "a → b  knocked out"
    assert weight_text(float("nan"), is_knocked_out=True) == "knocked out"
