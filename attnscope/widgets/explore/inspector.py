"""The selected head: its name, its gate, its measures, and what it does in one line."""

from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMenu, QToolButton, QWidget

from attnscope.figures.plain import plain_text
from attnscope.figures.style import type_px
from attnscope.records.interventions import Intervention
from attnscope.records.masks import UseMask
from attnscope.viewmodels.session.head_measures import find_measures, measures_shown
from attnscope.viewmodels.session.intervening import in_words, without
from attnscope.viewmodels.session.state import Session
from attnscope.widgets.explore.measure_rows import MeasureRows
from attnscope.widgets.form_parts import column, row
from attnscope.widgets.heads.gate_control import GateControl
from attnscope.widgets.labels import ElidedLabel, PlainLabel, plain_tooltip, tool_button, when
from attnscope.widgets.theme import Dressed

# What is done to single heads beyond gates: one line, which takes it back, and the rest in a menu.

_ROW_PX = 24


class ChangeList(QWidget):
    """The session's interventions, the selected head's first; as high with many as with none."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._shown: tuple[Intervention, ...] = ()
        self.label = ElidedLabel()
        self.back = tool_button("×", "Undo this change", role="status", clicked=self._on_back_clicked)
        self.more = tool_button("", "The other changes", role="status")
        self.more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.more.setMenu(QMenu(self.more))
        row((self.label, 1), self.back, self.more, on=self, spacing=4)
        told = session.changed
        when(self, self._show, told.interventions, told.selection, told.model, told.traced, told.aspect)
        self.fit_type()
        self._show()

    def fit_type(self) -> None:
        """Be as high as one line of type is now."""
        self.setFixedHeight(round(type_px(_ROW_PX)))

    def _show(self) -> None:
        session = self._session
        changes = session.interventions
        self._shown = tuple(sorted(changes, key=lambda change: change.head != session.primary))
        first, others = next(iter(self._shown), None), self._shown[1:]
        self.label.set_full_text(self._words(first) if first is not None else "")
        if first is not None:
            is_mask = isinstance(first, UseMask)
            told = first.sentence if is_mask else f"{first.head.stack} {first.sentence}"
            self.label.setToolTip(plain_tooltip(told))
        self.back.setVisible(first is not None)
        self.more.setVisible(bool(others))
        self.more.setText(f"+{len(others)} ▾")
        menu = self.more.menu()
        menu.clear()
        for change in others:
            words = f"Undo {self._words(change)}"
            menu.addAction(words.replace("&", "&&"), partial(self._take_back, change))

    def _words(self, change: Intervention) -> str:
        return plain_text(in_words(change, self._session.traced, self._session.aspect.rows))

    def _on_back_clicked(self) -> None:
        if self._shown:
            self._take_back(self._shown[0])

    def _take_back(self, change: Intervention) -> None:
        self._session.head_changes.intervene(without(self._session.interventions, change))


_LINE_TOOLTIP = "A row rests on the token that gets more than half of its weight."

_MODULE_LETTERS = 18
"""A module's path is longer than there is room for: its end tells most, the tooltip all."""


class Inspector(Dressed):
    """Shows the session's primary head."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.name = PlainLabel(role="large")
        self.place = PlainLabel(role="muted")
        self.line = PlainLabel(role="hint", wraps=True, tip=plain_tooltip(_LINE_TOOLTIP))
        self.line.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.gate = GateControl(session)
        self.changes = ChangeList(session)
        self.measures = MeasureRows()
        column(
            self.name,
            self.place,
            self.line,
            self.gate,
            self.changes,
            self.measures,
            None,
            on=self,
            margins=(16, 8, 16, 8),
            spacing=4,
        )
        self.dress()
        told = session.changed
        when(self, self._show, told.selection, told.traced, told.model, told.roles)
        self._show()

    def dress(self) -> None:
        self.line.setFixedHeight(round(type_px(36)))
        self.changes.fit_type()
        self._make_room()

    def fold_measures(self, is_folded: bool) -> None:
        """Leave name and gate only, or show the measures again."""
        self.measures.setVisible(not is_folded)
        self._make_room()

    def least_height(self, *, has_measures: bool) -> int:
        """How much room it takes with its measures or without, in px."""
        if not has_measures:
            return self._own_height(0)
        return max(round(type_px(288)), self._own_height(self.measures.minimumSizeHint().height()))

    def _own_height(self, rows: int) -> int:
        layout = self.layout()
        held = layout.totalMinimumSize().height() if layout is not None else 0
        shown = self.measures.minimumSizeHint().height() if not self.measures.isHidden() else 0
        return held - shown + rows

    def _make_room(self) -> None:
        """The measures stay whole."""
        self.setMinimumHeight(self.least_height(has_measures=not self.measures.isHidden()))

    def _show(self) -> None:
        session, head = self._session, self._session.primary
        if head is None:
            self.name.setText("No head")
            self.place.setText("select one in the grid")
            self.line.setText("")
            self.measures.show_measures(())
            return
        n_more = len(session.selection) - 1
        self.name.setText(head.label)
        place = f"{head.stack} · layer {head.layer} · head {head.head}"
        sites = session.model.sites if session.model else ()
        own = find_measures(session.measures, head)
        if own and own.n_rows:
            place = f"{head.stack} · estimated from {own.n_rows:,} of {own.n_all_rows:,} rows"
        once = next((s.former_label(head.head) for s in sites if s.key == head.site_key), "")
        once = f"once {once}" if once else ""
        module = dict(session.model.site_names).get(head.site_key, "") if session.model else ""
        shown = f"…{module[1 - _MODULE_LETTERS :].lstrip('.')}" if len(module) > _MODULE_LETTERS else module
        self.place.setText(
            " · ".join(filter(None, (place, once, shown, f"and {n_more} more" if n_more else "")))
        )
        self.place.setToolTip(plain_tooltip(f"Recorded in the module {module}" if module else ""))
        line = session.line_about(head)
        self.line.setText(line.replace("</", "<\u2060/\u2060"))  # no line ends inside </s>
        self.measures.show_measures(measures_shown(session.measures, head) if session.text.strip() else ())
