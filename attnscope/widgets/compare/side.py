"""One side of a comparison as a row: which model, which texts, which gates and interventions."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QMenu, QToolButton, QWidget

from attnscope.figures.colours import Palette
from attnscope.figures.plain import plain_text, shorten
from attnscope.figures.style import type_px
from attnscope.records.compare import Which
from attnscope.viewmodels.compare.sides import example_for
from attnscope.viewmodels.compare.state import CompareState
from attnscope.viewmodels.session.comparing import CHANGES, Changes, Kept, changes_words, short_source
from attnscope.viewmodels.session.state import Session
from attnscope.widgets.folder_dialog import ask_folder
from attnscope.widgets.labels import PlainLabel, plain_tooltip, tool_button, when_seen

OfferModels = Callable[[], tuple[str, ...]]
AskFolder = Callable[[QWidget, str, str], str]
_LONGEST_TEXT = 120
_HELD = "What the untouched model writes: the maps are read on it, so that both sides have the same tokens."
_MODEL_PX, _CHANGES_PX = 148, 196


class CompareSide(QWidget):
    """Shows one side of a CompareState; what the person chooses becomes its intents."""

    def __init__(
        self,
        which: Which,
        state: CompareState,
        session: Session,
        *,
        offer_models: OfferModels = tuple,
        choose_folder: AskFolder = ask_folder,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._which, self._state, self._session = which, state, session
        self._offer_models, self._choose_folder = offer_models, choose_folder
        self.label = PlainLabel(which, "large")
        self.model_button = self._menu_button(f"Model of {which}", self._fill_models)
        self.text_edit = QLineEdit()
        self.text_edit.setAccessibleName(f"Text of {which}")
        self.target_edit = QLineEdit()
        self.target_edit.setAccessibleName(f"Second text of {which}")
        self.changes_button = self._menu_button(f"Gates and interventions of {which}", self._fill_changes)
        self._lay_out()
        self.text_edit.textEdited.connect(self._on_text_edited)
        self.target_edit.textEdited.connect(self._on_target_edited)
        when_seen(self, self._show, state.changed.sides, state.changed.traced, state.changed.kept)

    def _menu_button(self, name: str, fill: Callable[[], None]) -> QToolButton:
        button = tool_button("", name)
        button.setToolTip(name)
        button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(button)
        menu.setToolTipsVisible(True)
        menu.aboutToShow.connect(fill)
        button.setMenu(menu)
        return button

    def _lay_out(self) -> None:
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        layout.addWidget(self.label)
        layout.addWidget(self.model_button)
        layout.addWidget(self.text_edit, 3)
        layout.addWidget(self.target_edit, 2)
        layout.addWidget(self.changes_button)
        self.setTabOrder(self.model_button, self.text_edit)
        self.setTabOrder(self.text_edit, self.target_edit)
        self.setTabOrder(self.target_edit, self.changes_button)

    # Showing

    def set_theme(self, _palette: Palette) -> None:
        """Take the present size of type."""
        self.label.setFixedWidth(round(type_px(20)))
        self.model_button.setFixedWidth(round(type_px(_MODEL_PX)))
        self.changes_button.setFixedWidth(round(type_px(_CHANGES_PX)))
        self._show()

    def _show(self) -> None:
        side, session = self._state.sides[self._which], self._session
        choice = side.choice
        _show_text(self.text_edit, choice.text or "")
        _show_text(self.target_edit, (choice.target or "") if choice.text is not None else "")
        example = example_for(choice, session)
        followed = shorten(plain_text(example or session.text), _LONGEST_TEXT)
        follows = "another sample" if example else "as in Explore"
        self.text_edit.setPlaceholderText(f"{follows}: {followed}" if followed else follows)
        whole = choice.text or example or session.text
        self.text_edit.setToolTip(
            plain_tooltip(f"{whole}\n\nEmpty: the text in Explore; while nothing differs, another sample.")
        )
        takes_target = side.takes_target or (choice.text is not None and choice.target is not None)
        self.target_edit.setVisible(takes_target)
        traced = side.traced
        read = shorten(plain_text(traced.target.text), _LONGEST_TEXT) if traced and traced.target else ""
        explore = (
            "as in Explore" if choice.text is None and not example and session.target is not None else ""
        )
        is_changed = side.shown is not None and bool(side.shown.gates or side.shown.interventions)
        self.target_edit.setPlaceholderText(
            f"{explore or ('held fixed' if is_changed else 'its own')}: {read}"
        )
        second = self.target_edit.text() or self.target_edit.placeholderText()
        held = "" if explore or not is_changed else f"\n\n{_HELD}"
        self.target_edit.setToolTip(plain_tooltip(f"{second}{held}"))
        model = "open model" if choice.model is None else short_source(choice.model)
        if choice.model is None and session.model is not None:
            model = session.model.name
        self._name(self.model_button, model, "open now" if choice.model is None else choice.model)
        self._name(self.changes_button, self._changes_words(), self._changes_tip())

    def _changes_words(self) -> str:
        choice = self._state.sides[self._which].choice
        if choice.changes == "explore":
            words = changes_words(self._session.gates, self._session.interventions)
            return f"Explore: {words}"
        return choice.kept.label if choice.changes == "kept" and choice.kept else "untouched"

    def _changes_tip(self) -> str:
        return f"{self.changes_button.accessibleName()}: {self._changes_words()}"

    def _name(self, button: QToolButton, text: str, tip: str) -> None:
        room = button.minimumWidth() - round(type_px(36))
        shown = button.fontMetrics().elidedText(plain_text(text), Qt.TextElideMode.ElideRight, room)
        button.setText(f"{shown.replace('&', '&&')} ▾")
        button.setToolTip(plain_tooltip(tip))

    # Menus

    def _fill_models(self) -> None:
        menu, choice = self.model_button.menu(), self._state.sides[self._which].choice
        menu.clear()
        model = self._session.model
        name = f"The open model{f' ({model.name})' if model else ''}"
        self._add(menu, name, lambda: self._choose_model(None), is_on=choice.model is None)
        menu.addSeparator()
        for source in self._offer_models():
            run = partial(self._choose_model, source)
            action = self._add(menu, short_source(source), run, is_on=choice.model == source)
            action.setToolTip(plain_tooltip(source))
        menu.addSeparator()
        self._add(menu, "Model or checkpoint folder…", self._ask_model)

    def _fill_changes(self) -> None:
        menu, choice = self.changes_button.menu(), self._state.sides[self._which].choice
        menu.clear()
        for changes, name in CHANGES.items():
            run = partial(self._choose_changes, changes)
            self._add(menu, name[0].upper() + name[1:], run, is_on=choice.changes == changes)
        if self._state.kept:
            menu.addSeparator()
        for kept in self._state.kept:
            run = partial(self._choose_changes, "kept", kept)
            action = self._add(menu, f"Kept: {kept.label}", run, is_on=choice.kept == kept)
            action.setToolTip(plain_tooltip(f"{short_source(kept.source)}\n{kept.text}"))

    def _add(self, menu: QMenu, text: str, run: Callable[[], None], *, is_on: bool = False) -> QAction:
        action = QAction(shorten(plain_text(text), 60).replace("&", "&&"), menu)
        action.setCheckable(True)
        action.setChecked(is_on)
        action.triggered.connect(lambda _checked=False: run())
        menu.addAction(action)
        return action

    # Intents

    def _choose_model(self, source: str | None) -> None:
        self._state.choose_model(self._which, source)

    def _ask_model(self) -> None:
        folder = self._choose_folder(self, f"Model or checkpoint for {self._which}", str(Path.home()))
        if folder:
            self._choose_model(folder)

    def _choose_changes(self, changes: Changes, kept: Kept | None = None) -> None:
        self._state.choose_changes(self._which, changes, kept)

    def _on_text_edited(self, text: str) -> None:
        self._state.set_text(self._which, text)

    def _on_target_edited(self, text: str) -> None:
        self._state.set_target(self._which, text)


def _show_text(edit: QLineEdit, text: str) -> None:
    """Show `text` unless it stands there, keeping the cursor in its place."""
    if edit.text() != text and not (edit.hasFocus() and not edit.text().strip() and not text):
        at = edit.cursorPosition()
        edit.setText(text)
        edit.setCursorPosition(min(at, len(text)) if edit.hasFocus() else 0)
