"""Undo and redo of what is looked at: on the page Labs the lab's own, elsewhere the session's."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

from PySide6.QtGui import QAction
from PySide6.QtWidgets import QWidget

from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.session.steps_seen import unseen_words
from attnscope.viewmodels.view_state import ViewState
from attnscope.widgets.labels import when
from attnscope.widgets.labs.page import LabsPage
from attnscope.widgets.possible import allow

Way = Literal["undo", "redo"]
_TOLD: dict[Way, str] = {"undo": "Undid", "redo": "Did again"}


class Undoing:
    """Belongs to one window. `of_session` is the session's undo on every page, for what is told of it."""

    def __init__(self, session: Session, view: ViewState, window: QWidget) -> None:
        self._session, self._view, self._window = session, view, window
        self._actions: Mapping[str, QAction] = {}
        self._labs: LabsPage | None = None
        self.of_session = QAction("Undo", window)
        self.of_session.triggered.connect(lambda _checked=False: self._turn_session("undo"))

    def handlers(self) -> dict[str, Callable[[], None]]:
        """The handlers of the two actions."""
        return {way: partial(self._turn, way) for way in _TOLD}

    def attach(self, actions: Mapping[str, QAction], labs: LabsPage) -> None:
        """Name and enable the actions from now on by what they would do."""
        self._actions, self._labs = actions, labs
        told, page = self._session.changed, self._view.changed.page
        when(self._window, self._show, told.history, told.model, page)
        labs.controls_changed.connect(self._show)
        self._show()

    def _show(self) -> None:
        for way in _TOLD:
            verb, words = way.capitalize(), self._words(way)
            action = self._actions[way]
            action.setText(words or verb)
            where = f" in {self._labs.shown}" if self._labs is not None and self._view.page == "labs" else ""
            nothing = f"Nothing to {way}{where}"
            allow(action, "" if words else nothing, tip=f"{words} ({action.shortcut().toString()})")
        self.of_session.setText(self._session_words("undo") or "Undo")

    def _words(self, way: Way) -> str:
        """What an action would do; empty where there is nothing to be done."""
        if self._labs is None or self._view.page != "labs":
            return self._session_words(way)
        controls = self._labs.controls
        can = controls is not None and (controls.can_undo if way == "undo" else controls.can_redo)
        return f"{way.capitalize()} in {self._labs.shown}" if can else ""

    def _session_words(self, way: Way) -> str:
        history = self._session.history
        label = history.undo_label if way == "undo" else history.redo_label
        return f"{way.capitalize()}: {label}" if label else ""

    def _turn(self, way: Way) -> None:
        if self._labs is None or self._view.page != "labs":
            self._turn_session(way)
        elif self._labs.controls is not None:
            controls = self._labs.controls
            (controls.undo if way == "undo" else controls.redo)()

    def _turn_session(self, way: Way) -> None:
        """A step that is not seen on the page is told."""
        session = self._session
        change = session.history.undoing if way == "undo" else session.history.redoing
        words = unseen_words(_TOLD[way], change, self._view.page)
        (session.undo if way == "undo" else session.redo)()
        if words:
            session.tell_person(words)
