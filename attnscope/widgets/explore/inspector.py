"""The selected head: its name, its gate, its measures, and its role in one line."""

import math
from functools import partial

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QBoxLayout, QMenu, QSizePolicy, QToolButton, QWidget

from attnscope.figures.colours import Palette
from attnscope.figures.style import NORMAL_PX, SMALL_PX, font, plain_text, text_width, type_px
from attnscope.records.interventions import Intervention, UseMask
from attnscope.records.sites import once_words
from attnscope.viewmodels.session.changes import fixed_heads, in_words, without
from attnscope.viewmodels.session.head_measures import (
    MEASURES,
    MeasureKind,
    MeasureShown,
    find_measures,
    measures_shown,
)
from attnscope.viewmodels.session.state import Session
from attnscope.widgets.form_parts import JumpSlider, column, row
from attnscope.widgets.labels import ElidedLabel, PlainLabel, named, plain_tooltip, tool_button, when
from attnscope.widgets.theme import Dressed

# The measures of one head, each as a bar that shows where it stands among all heads.

_MEASURE_PX, _VALUE_PX = 24, 40
_SHORT = 5
"""Characters of a value that have room in _VALUE_PX in every font of the program."""


def names_px() -> float:
    """The width of the longest name, so that none is cut."""
    return max(text_width(kind.name, NORMAL_PX) for kind in MEASURES)


class MeasureRow(Dressed):
    """One measure: name, bar with a tick for every head, value."""

    def __init__(self, kind: MeasureKind) -> None:
        super().__init__()
        self._kind = kind
        self._shown: MeasureShown | None = None
        self._name_px = names_px()
        self.setFixedHeight(round(type_px(_MEASURE_PX)))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setToolTip(plain_tooltip(f"{kind.name}, {kind.unit}\n{kind.definition}"))
        self.setAccessibleName(kind.name)

    def show_measure(self, shown: MeasureShown | None) -> None:
        """Show another value."""
        if shown == self._shown:
            return
        self._shown = shown
        if shown:
            self.setToolTip(plain_tooltip(shown.tooltip))
            self.setAccessibleDescription(f"{shown.text} {shown.kind.unit}")
        self.update()

    def dress(self) -> None:
        self._name_px = names_px()
        self.setFixedHeight(round(type_px(_MEASURE_PX)))

    def sizeHint(self) -> QSize:
        return QSize(240, round(type_px(_MEASURE_PX)))

    def paintEvent(self, _event: QPaintEvent) -> None:
        palette, shown = self.theme, self._shown
        middle = Qt.AlignmentFlag.AlignVCenter
        with QPainter(self) as painter:
            painter.setFont(font(NORMAL_PX))
            painter.setPen(QColor(palette.muted))
            row, name, room = type_px(_MEASURE_PX), self._name_px, type_px(_VALUE_PX)
            text = shown.text if shown else "–"
            if len(text) > _SHORT:  # of long texts: 2030.2 tokens
                room = max(room, text_width(text, NORMAL_PX) + 2)
            painter.drawText(QRectF(0, 0, name, row), middle, self._kind.name)
            bar = QRectF(name + 8, row / 2 - 4, self.width() - name - room - 16, 8)
            painter.fillRect(bar, QColor(palette.grid))
            painter.setPen(QColor(palette.text))
            value = QRectF(self.width() - room, 0, room, row)
            painter.setFont(font(SMALL_PX if shown is None else NORMAL_PX))
            painter.drawText(value, middle | Qt.AlignmentFlag.AlignRight, text)
            if shown:
                _paint_bar(painter, bar, shown, palette)


def _paint_bar(painter: QPainter, bar: QRectF, shown: MeasureShown, palette: Palette) -> None:
    left, width = bar.x(), bar.width()
    if math.isfinite(shown.place):
        own = width * min(max(shown.place, 0.0), 1.0)
        painter.fillRect(QRectF(left, bar.y(), own, bar.height()), QColor(palette.accent))
    tick, top = QColor(palette.muted), bar.bottom() + 1
    for place in {min(max(place, 0.0), 1.0) for place in shown.others}:
        painter.fillRect(QRectF(left + (width - 1) * place, top, 1, 4), tick)


class MeasureRows(QWidget):
    """Every measure of one head."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = tuple(MeasureRow(kind) for kind in MEASURES)
        column(*self.rows, on=self, spacing=0)

    def show_measures(self, measures: tuple[MeasureShown, ...]) -> None:
        """Show other values; none are shown when there are none."""
        for k, shown in enumerate(self.rows):
            shown.show_measure(measures[k] if k < len(measures) else None)


# The gate of the selected head: a slider from 0 to 1, its value, and a switch.

_STEPS = 100
_SLIDER_TIP = (
    "The head's output is multiplied by this before the output projection.\n"
    "0 removes the head, 1 leaves it unchanged."
)
_SWITCH_TIP = "Switch the selected heads off or on (Ctrl+G)"


class GateControl(Dressed):
    """Shows and changes the gate of the primary head; the switch acts on every selected head."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self.slider = named(JumpSlider(Qt.Orientation.Horizontal), "Gate of the selected head")
        self.slider.setRange(0, _STEPS)
        self.slider.setPageStep(10)
        self.value = PlainLabel()
        self.value.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.switch = tool_button(
            "on", "Switch the selected heads on or off", role="segment", is_checkable=True
        )
        row(PlainLabel("gate"), (self.slider, 1), self.value, self.switch, on=self)
        self.slider.valueChanged.connect(self._on_slider_moved)
        self.slider.sliderReleased.connect(session.head_changes.end_drag)
        self.switch.clicked.connect(self._on_switch_clicked)
        told = session.changed
        when(self, self._show, told.gates, told.selection, told.model)
        self.dress()
        self._show()

    def dress(self) -> None:
        self.value.setFixedWidth(round(type_px(36)))
        self.switch.setFixedWidth(round(type_px(40)))

    def _show(self) -> None:
        head = self._session.primary
        value = self._session.gates.value(head) if head else 1.0
        why_not = fixed_heads(self._session.model)
        self.setEnabled(head is not None and not why_not)
        for widget, tip in ((self, ""), (self.slider, _SLIDER_TIP), (self.switch, _SWITCH_TIP)):
            widget.setToolTip(plain_tooltip(why_not or tip))
        self.value.setText(f"{value:.2f}")
        self.switch.setChecked(value > 0.0)
        self.switch.setText("on" if value > 0.0 else "off")
        self.slider.setValue(round(value * _STEPS))

    def _on_slider_moved(self, step: int) -> None:
        # QSlider has no signal for the person alone that covers keys and the wheel: what the session
        # already holds is left alone, so showing a value does not set it.
        head = self._session.primary
        if head and step != round(self._session.gates.value(head) * _STEPS):
            self._session.head_changes.set_gate(head, step / _STEPS)

    def _on_switch_clicked(self) -> None:
        self._session.head_changes.toggle_gates(self._session.selection)
        self._show()


# What is done to single heads beyond gates: one line, which takes it back, and the rest in a menu.

_ROW_PX = 24
_FIXED = "heads cannot be changed here"


class ChangeList(QWidget):
    """The session's interventions, the selected head's first; of constant height."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._shown: tuple[Intervention, ...] = ()
        self._why_not = ""
        self.label = ElidedLabel()
        self.back = tool_button("×", "Undo this change", role="status", clicked=self._on_back_clicked)
        self.more = tool_button("", "The other changes", role="status")
        self.more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.more.setMenu(QMenu(self.more))
        row((self.label, 1), self.back, self.more, on=self, spacing=4)
        told = session.changed
        when(self, self._show, told.interventions, told.selection, told.traced, told.aspect)
        when(self, self._take_model, told.model)
        self.fit_type()
        self._take_model()

    def fit_type(self) -> None:
        """Set the height to one line of the current type."""
        self.setFixedHeight(round(type_px(_ROW_PX)))

    def _take_model(self) -> None:
        self._why_not = fixed_heads(self._session.model)
        self._show()

    def _show(self) -> None:
        session = self._session
        changes = session.interventions
        self._shown = tuple(sorted(changes, key=lambda change: change.head != session.primary))
        first, others = next(iter(self._shown), None), self._shown[1:]
        if first is None:
            self.label.set_full_text(_FIXED if self._why_not else "", self._why_not)
        else:
            self.label.set_full_text(self._words(first))
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


class HeadInspector(Dressed):
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
        self._heading = column(self.name, self.place, spacing=4)
        self._below_gate = column(self.changes)
        self._rows = column(
            (self._heading, 0),
            self.line,
            self.gate,
            (self._below_gate, 0),
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
        """Show name and gate only, or the measures again."""
        self.measures.setVisible(not is_folded)
        self._make_room()

    def set_low(self, is_low: bool) -> None:
        """Put name, place and changes in one row, if there is width and no height, or each in its own."""
        way = QBoxLayout.Direction.LeftToRight if is_low else QBoxLayout.Direction.TopToBottom
        if way != self._heading.direction():
            self._heading.setDirection(way)
            self._heading.setSpacing(12 if is_low else 4)
            (self._heading if is_low else self._below_gate).addWidget(self.changes, 1 if is_low else 0)

    def least_height(self, *, has_measures: bool) -> int:
        """Minimum height with or without measures, in px."""
        if not has_measures:
            return self._own_height(0)
        return max(round(type_px(288)), self._own_height(self.measures.minimumSizeHint().height()))

    def _own_height(self, rows: int) -> int:
        held = self._rows.totalMinimumSize().height()
        shown = self.measures.minimumSizeHint().height() if not self.measures.isHidden() else 0
        return held - shown + rows

    def _make_room(self) -> None:
        for layout in (self._heading, self._rows):  # type may have grown: they hear of it at the next event
            layout.invalidate()
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
        own = find_measures(session.measures, head)
        if own and own.n_rows:
            place = f"{head.stack} · estimated from {own.n_rows:,} of {own.n_all_rows:,} rows"
        once = once_words(session.sites, head)
        module = dict(session.model.site_names).get(head.site_key, "") if session.model else ""
        shown = f"…{module[1 - _MODULE_LETTERS :].lstrip('.')}" if len(module) > _MODULE_LETTERS else module
        self.place.setText(
            " · ".join(filter(None, (place, once, shown, f"and {n_more} more" if n_more else "")))
        )
        self.place.setToolTip(plain_tooltip(f"Recorded in the module {module}" if module else ""))
        line = session.line_about(head)
        self.line.setText(line.replace("</", "<\u2060/\u2060"))  # no line ends inside </s>
        self.measures.show_measures(measures_shown(session.measures, head) if session.text.strip() else ())
