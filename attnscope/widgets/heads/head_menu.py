"""The context menu of the large map: what can be done to the head, and to the edge under the cursor."""

from collections.abc import Callable, Sequence

from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu, QWidget

from attnscope.figures.plain import plain_piece
from attnscope.records.interventions import (
    CopyPattern,
    Intervention,
    MakeMean,
    MakeUniform,
    RemoveEdge,
)
from attnscope.records.maps import HeadMap
from attnscope.viewmodels.session.intervening import of_head, with_or_without
from attnscope.viewmodels.session.state import Session
from attnscope.widgets.possible import allow

Cell = tuple[int, int]


def head_menu(
    session: Session, shown: HeadMap, cell: Cell | None, head_actions: Sequence[QAction], parent: QWidget
) -> QMenu:
    """A menu for the head of `shown`; `cell` is the query and key under the cursor."""
    menu = QMenu(parent, toolTipsVisible=True)
    head = shown.head
    done = of_head(session.interventions, head)
    if cell is not None and cell[0] < len(shown.queries) and cell[1] < len(shown.keys):
        edge = RemoveEdge(head=head, query=cell[0], key=cell[1])
        names = f"{_name(shown.queries[cell[0]].piece)} → {_name(shown.keys[cell[1]].piece)}"
        verb = "Put back the edge" if edge in done else "Knock out the edge"
        _add(menu, session, f"{verb} {names}\tDel", edge, "Its weight is shared among the row's other keys")
    uniform, mean = MakeUniform(head=head), MakeMean(head=head)
    _add(menu, session, _ticked("Uniform weights", uniform in done), uniform, "The same weight on every key")
    _add(menu, session, _ticked("Its mean output", mean in done), mean, "The same output at every query")
    menu.addSeparator()
    _add_plain(menu, f"Copy the pattern of {head.label}", lambda: session.head_changes.copy_pattern(head))
    clip = session.head_changes.pattern_clip
    if clip is not None:
        copied = clip.onto(head)
        is_own = clip.head == head and (clip.text, clip.target) == (session.text, session.target)
        where = "" if clip.text == session.text else " of the other text"
        action = _add(
            menu,
            session,
            _ticked(f"Use the pattern of {clip.head.label}{where}", copied in done),
            copied,
            "Needs a text with the same number of tokens",
        )
        allow(action, "The pattern was copied from this head and text" if is_own else "")
    if any(isinstance(change, CopyPattern) for change in done) and clip is None:
        change = next(change for change in done if isinstance(change, CopyPattern))
        _add(menu, session, f"Remove the pattern of {change.from_head.label}", change, "")
    if session.interventions:
        menu.addSeparator()
        _add_plain(menu, "Undo all head changes", lambda: session.head_changes.intervene(()))
    menu.addSeparator()
    menu.addActions(list(head_actions))
    return menu


def knock_out(session: Session, shown: HeadMap, cell: Cell) -> None:
    """Take the edge at `cell` out of the shown head, or put it back."""
    edge = RemoveEdge(head=shown.head, query=cell[0], key=cell[1])
    session.head_changes.intervene(with_or_without(session.interventions, edge))


def _add(menu: QMenu, session: Session, text: str, change: Intervention, tip: str) -> QAction:
    action = _add_plain(
        menu, text, lambda: session.head_changes.intervene(with_or_without(session.interventions, change))
    )
    action.setToolTip(tip)
    return action


def _add_plain(menu: QMenu, text: str, run: Callable[[], None]) -> QAction:
    action = QAction(text.replace("&", "&&"), menu)
    action.triggered.connect(lambda _checked=False: run())
    menu.addAction(action)
    return action


def _ticked(text: str, is_on: bool) -> str:
    return f"✓ {text}" if is_on else text


def _name(piece: str) -> str:
    plain = plain_piece(piece)
    return f"“{plain if len(plain) <= 16 else plain[:15] + '…'}”"
