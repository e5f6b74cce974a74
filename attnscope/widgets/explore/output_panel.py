"""The model's output, before | after: candidates as bars, a text with its changed words, the distance."""

import math

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import (
    QColor,
    QFontMetricsF,
    QPainter,
    QPaintEvent,
    QTextCharFormat,
    QTextLayout,
    QTextOption,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from attnscope.counting import below_text, probability_text
from attnscope.figures.colours import Palette
from attnscope.figures.style import (
    NORMAL_PX,
    SMALL_PX,
    drawn_piece,
    font,
    isolated,
    plain_text,
    type_key,
    type_px,
)
from attnscope.last_made import LastMade
from attnscope.records.outputs import Comparison
from attnscope.viewmodels.compare.difference import (
    CERTAINTY_TIP,
    COPIED_TIP,
    CandidateRow,
    Segment,
    candidate_rows,
    certainty_text,
    copied_text,
    follows_text,
    kind_words,
    kl_words,
    most_changed_position,
    prediction_labels,
    text_difference,
)
from attnscope.viewmodels.session.changes import mask_in
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.view_state import ViewState
from attnscope.widgets.form_parts import narrow_combo, row, scrolled_column
from attnscope.widgets.labels import PlainLabel, plain_tooltip, when
from attnscope.widgets.map_widget import StaleWatch
from attnscope.widgets.theme import Dressed

_ROW_PX, _HEAD_PX = 24, 20
_NUMBER_PX = 44
"""Room for the longest number, <0.001, beside its bar."""


class CandidateTable(Dressed):
    """One row a candidate: its piece, then probability and bar before, then after, unless it `is_alone`."""

    def __init__(self, n_rows: int = 8, *, names: tuple[str, str] = ("before", "after")) -> None:
        super().__init__()
        self._names = names
        self._rows: tuple[CandidateRow, ...] = ()
        self._n_rows = n_rows
        self._what, self._is_alone = "token", False
        self.fit_room()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._name()

    def show_rows(self, rows: tuple[CandidateRow, ...]) -> None:
        if rows != self._rows:
            self._rows = rows
            self.setAccessibleDescription("; ".join(row.sentence for row in rows))
            self.update()

    def name_answers(self, what: str, *, is_alone: bool = False) -> None:
        """Set what the rows are: tokens, or labels; and whether there is a comparison."""
        if (what, is_alone) != (self._what, self._is_alone):
            self._what, self._is_alone = what, is_alone
            self._name()
            self.update()

    def _name(self) -> None:
        sides = "" if self._is_alone else f": {self._names[0]} and {self._names[1]}"
        self.setAccessibleName(f"Most probable {self._what}s{sides}")

    def sizeHint(self) -> QSize:
        return QSize(240, self.height())

    def paintEvent(self, _event: QPaintEvent) -> None:
        piece, before, after = self._columns()
        with QPainter(self) as painter:
            palette = self.theme
            painter.setFont(font(SMALL_PX))
            painter.setPen(QColor(palette.muted))
            middle = Qt.AlignmentFlag.AlignVCenter
            names = ("probability", "") if self._is_alone else self._names
            for column, name in zip((piece, before, after), (self._what, *names), strict=True):
                painter.drawText(column, middle, name)
            for k, row in enumerate(self._rows):
                top = type_px(_HEAD_PX + k * _ROW_PX)
                _paint_piece(painter, piece.translated(0, top), row, palette)
                for side, value, below, colour in (
                    (before, row.before, row.before_below, palette.muted),
                    (after, row.after, row.after_below, palette.accent),
                )[: 1 if self._is_alone else 2]:
                    _paint_side(painter, side.translated(0, top), value, below, palette, colour)

    def fit_room(self) -> None:
        self.setFixedHeight(round(type_px(_HEAD_PX + self._n_rows * _ROW_PX)))

    def _columns(self) -> tuple[QRectF, QRectF, QRectF]:
        width = float(self.width())
        piece = min(0.3 * width, type_px(160.0))
        head = type_px(_HEAD_PX)
        side = width - piece - 8 if self._is_alone else (width - piece - 16) / 2
        return (
            QRectF(0, 0, piece, head),
            QRectF(piece + 8, 0, side, head),
            QRectF(piece + 16 + side, 0, side, head),
        )


def _paint_piece(painter: QPainter, place: QRectF, row: CandidateRow, palette: Palette) -> None:
    place = QRectF(place.x(), place.y(), place.width(), type_px(_ROW_PX))
    type_ = font(NORMAL_PX)
    text = drawn_piece(row.name or row.token.piece)
    text = QFontMetricsF(type_).elidedText(text, Qt.TextElideMode.ElideMiddle, place.width())
    painter.setFont(type_)
    painter.setPen(QColor(palette.muted if row.token.is_special else palette.text))
    painter.drawText(place, Qt.AlignmentFlag.AlignVCenter, isolated(text))


def _paint_side(
    painter: QPainter,
    place: QRectF,
    value: float | None,
    below: float | None,
    palette: Palette,
    colour: str,
) -> None:
    """Paint a value with its bar; for an unknown one its upper bound."""
    text = probability_text(value) if value is not None else "–" if below is None else below_text(below)
    painter.setFont(font(SMALL_PX))
    painter.setPen(QColor(palette.text if value is not None else palette.muted))
    room, row = type_px(_NUMBER_PX), type_px(_ROW_PX)
    number = QRectF(place.right() - room, place.y(), room, row)
    painter.drawText(number, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, text)
    bar = QRectF(place.x(), place.y() + row / 2 - 4, max(place.width() - room - 2, 8), 8)
    painter.fillRect(bar, QColor(palette.grid))
    bar.setWidth(bar.width() * min(max(value or 0.0, 0.0), 1.0))
    painter.fillRect(bar, QColor(colour))


_MAX_LINES = 12


class DifferenceLabel(Dressed):
    """Shows segments as one wrapped text; changed ones are underlined and tinted."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self._segments: tuple[Segment, ...] = ()
        self._laid_out: LastMade[tuple[QTextLayout, int]] = LastMade()
        self.is_stale = False
        self.setAccessibleName(name)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.fit_room()

    def show_segments(self, segments: tuple[Segment, ...]) -> None:
        """Show another text."""
        if segments != self._segments:
            self._segments = segments
            self.setAccessibleDescription("".join(segment.text for segment in segments))
            self.fit_room()
            self.update()

    def set_stale(self, is_stale: bool) -> None:
        """Dim the text while another one is pending."""
        if is_stale != self.is_stale:
            self.is_stale = is_stale
            self.update()

    def sizeHint(self) -> QSize:
        return QSize(200, self.height())

    def paintEvent(self, _event: QPaintEvent) -> None:
        layout, _ = self._text_layout()
        with QPainter(self) as painter:
            painter.setPen(QColor(self.theme.text))
            if self.is_stale:
                painter.setOpacity(0.45)
            layout.draw(painter, QPointF(0, 0))

    def fit_room(self) -> None:
        _, height = self._text_layout()
        if height != self.height() or self.minimumHeight() != height:
            self.setFixedHeight(height)

    def _text_layout(self) -> tuple[QTextLayout, int]:
        """The lines and their height, cached by text, width, size of type and theme."""
        key = (self._segments, self.width(), type_key(), self.theme)
        return self._laid_out.of(key, self._lay_out)

    def _lay_out(self) -> tuple[QTextLayout, int]:
        texts = [plain_text(segment.text) for segment in self._segments]
        layout = QTextLayout("".join(texts), font(NORMAL_PX))
        option = QTextOption()
        option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        layout.setTextOption(option)
        layout.setFormats(self._formats(texts))
        layout.beginLayout()
        y = 0.0
        for _ in range(_MAX_LINES):
            line = layout.createLine()
            if not line.isValid():
                break
            line.setLineWidth(max(self.width(), 40))
            line.setPosition(QPointF(0, y))
            y += line.height()
        layout.endLayout()
        return layout, max(math.ceil(y), 20)

    def _formats(self, texts: list[str]) -> list[QTextLayout.FormatRange]:
        ranges = []
        start = 0
        for segment, text in zip(self._segments, texts, strict=True):
            if segment.is_changed:
                n_spaces = len(text) - len(text.lstrip(" "))
                marked = QTextLayout.FormatRange()
                marked.start, marked.length = start + n_spaces, _utf16_length(text) - n_spaces
                look = QTextCharFormat()
                look.setForeground(QColor(self.theme.accent))
                look.setFontUnderline(True)
                look.setFontWeight(600)
                marked.format = look
                ranges.append(marked)
            start += _utf16_length(text)
        return ranges


def _utf16_length(text: str) -> int:
    """Qt counts text in UTF-16 units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


_UNWRITTEN = "not written: the mask covers only this text"
_NOTHING = {"masked-token": "No token here can be filled in: each is special or unknown. Type <mask>."}
_SIDES = ("all heads on", "with your changes")
_KL_TOOLTIP = (
    "Kullback–Leibler divergence KL(before ‖ after) = Σ p·ln(p/q) over the whole vocabulary, in nats.\n"
    "0: the gates change nothing here."
)
_FOLLOWS_TOOLTIP = (
    "Next-sentence prediction: the probability, by the model, that the second text follows the first; 0.5 is"
    " undecided. Read from the first token's last state. (Devlin et al. 2018)\n"
    "With changes to heads: before → after."
)


class OutputPanel(QWidget):
    """Shows the comparison of the newest trace; the prediction is chosen in the view state.

    It begins at the prediction that the gates moved most, until the user chooses one.
    """

    def __init__(self, session: Session, view: ViewState) -> None:
        super().__init__()
        self._session, self._view = session, view
        self.title = PlainLabel("Output", "name")
        self.kind = PlainLabel(role="muted")
        self.positions = narrow_combo("Prediction to show")
        self.table = CandidateTable()
        self.kl = PlainLabel(role="name", tip=plain_tooltip(_KL_TOOLTIP))
        self.follows = PlainLabel(wraps=True, tip=plain_tooltip(_FOLLOWS_TOOLTIP))
        self.copied = PlainLabel(wraps=True, tip=plain_tooltip(COPIED_TIP))
        self._text_titles = (PlainLabel(role="muted"), PlainLabel(role="muted"))
        self.texts = (
            DifferenceLabel("Text before the gates"),
            DifferenceLabel("Text after the gates"),
        )
        self.certainty = PlainLabel(role="muted", tip=plain_tooltip(CERTAINTY_TIP))
        self.unwritten = PlainLabel(_UNWRITTEN, "hint", wraps=True)
        self._lay_out()
        self._is_chosen = self._is_alone = False
        self._stale = StaleWatch(self._is_late, self._show_stale, self)
        self.positions.activated.connect(self._on_chosen)
        told = session.changed
        when(self, self._show_all, told.traced)
        when(self, self._show_texts, told.output)
        when(self, self._stale.check, told.traced, told.output, told.stale)
        when(self, self._show_prediction, view.changed.position)
        self._show_all()

    def _lay_out(self) -> None:
        column = scrolled_column(self)
        column.addLayout(row(self.title, self.kind, None, self.kl))
        column.addWidget(self.follows)
        column.addWidget(self.positions)
        for title, text in zip(self._text_titles, self.texts, strict=True):
            column.addWidget(title)
            column.addWidget(text)
            if text is self.texts[0]:
                column.addWidget(self.certainty)
        column.addWidget(self.unwritten)
        column.addWidget(self.copied)
        column.addWidget(self.table)
        column.addStretch(1)

    def _is_late(self) -> bool:
        comparison = self._comparison()
        return self._session.tracing.is_stale or (comparison is not None and comparison.is_writing)

    def _show_stale(self, is_stale: bool) -> None:
        for text in self.texts:
            text.set_stale(is_stale)

    def _on_chosen(self, index: int) -> None:
        """Keep the user's choice: other gates do not switch the prediction until the text changes."""
        self._is_chosen = True
        self._view.choose_position(index)

    def _comparison(self) -> Comparison | None:
        has_text = bool(self._session.text.strip())
        return self._session.traced.comparison if self._session.traced and has_text else None

    def _show_all(self) -> None:
        comparison = self._comparison()
        model, kind = self._session.model, comparison.before.kind if comparison else None
        self.kind.setText(kind_words(kind, model) if kind else "")
        what = "label" if comparison and comparison.before.kind == "class" else "token"
        # No head can be changed: before and after would be the same.
        self._is_alone = model is not None and not model.has_gates
        self.table.name_answers(what, is_alone=self._is_alone)
        labels = [plain_text(label) for label in prediction_labels(comparison)] if comparison else []
        if labels != [self.positions.itemText(k) for k in range(self.positions.count())]:
            self.positions.clear()
            self.positions.addItems(labels)
            self._is_chosen = False
        if comparison and not self._is_chosen:
            self._view.choose_position(most_changed_position(comparison))
        self.positions.setVisible(len(labels) > 1)
        follows = follows_text(comparison) if comparison else ""
        self.follows.say(follows)
        self._show_texts()
        self._show_prediction()

    def _show_texts(self) -> None:
        """Show the generated text; while a new one is generated, the previous one."""
        comparison = self._comparison()
        if comparison and comparison.is_writing:
            return
        before = comparison.before.generated if comparison else ""
        after = comparison.after.generated if comparison else ""
        is_second = comparison is not None and comparison.before.kind == "translation"
        what = self.kind.text() if is_second else "continuation"
        is_alone = self._is_alone
        for title, side in zip(self._text_titles, _SIDES, strict=True):
            title.setText(what if is_alone else f"{what}, {side}")
        for widget, segments in zip(self.texts, text_difference(before, after), strict=True):
            widget.show_segments(segments)
        for part in (*self._text_titles, *self.texts):
            part.setVisible(bool(before or after))
        certainty = certainty_text(comparison) if comparison else ""
        self.certainty.say(certainty)
        is_unwritten = bool(before) and not after and mask_in(self._session.interventions) is not None
        self._text_titles[1].setVisible(bool(before or after) and not is_alone)
        self.texts[1].setVisible(bool(before or after) and not is_alone and not is_unwritten)
        refused = comparison.refused if comparison else ""
        kind = comparison.before.kind if comparison else None
        nothing = _NOTHING.get(kind, "") if comparison and kind and not comparison.before.predictions else ""
        self.unwritten.setText(refused or nothing or _UNWRITTEN)
        self.unwritten.setVisible(is_unwritten or bool(refused or nothing))

    def _show_prediction(self) -> None:
        comparison = self._comparison()
        n_shared = 0
        if comparison:
            n_shared = min(len(comparison.before.predictions), len(comparison.after.predictions))
        self.table.setVisible(comparison is None or n_shared > 0)
        self.copied.setVisible(bool(comparison and n_shared and comparison.after.p_write))
        if comparison is None or n_shared == 0:
            self.table.show_rows(())
            self.kl.setText("")
            return
        at = min(self._view.position, n_shared - 1)
        self.positions.setCurrentIndex(at)
        before, after = comparison.before.predictions[at], comparison.after.predictions[at]
        self.table.show_rows(candidate_rows(before, after))
        self.kl.setText("" if self._is_alone else kl_words(comparison.kl_nats, at))
        if comparison.after.p_write:
            self.copied.setText(copied_text(comparison, at))
