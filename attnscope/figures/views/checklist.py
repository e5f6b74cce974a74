"""Requirements for a good positional encoding: every position scheme, with measurements."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen

from attnscope.counting import format_number, listed, percent
from attnscope.figures.colours import Palette
from attnscope.figures.spec import FigureSpec
from attnscope.figures.style import LINE_PX, NORMAL_PX, SMALL_PX, font, wrapped
from attnscope.figures.words_and_numbers import exact_number_text, safe_cell
from attnscope.records.maps import PositionCheck, PositionTable

_MARGIN_PX, _ROW_PX, _HEAD_PX = 12.0, 24.0, 40.0
_WIDE_PX = 900.0
_SAME, _RELATIVE, _FITS = 1e-3, 0.999, 1e-3
"""Changes of scores in nats, shares and errors that count as none, all, and exact."""
_HEADS = (
    "",
    "the same each time",
    "distinct",
    "past the length",
    "relative",
    "A with PE(t+1) = A·PE(t)",
    "learned",
)
_ASKED = (
    "An encoding should be the same each time, tell every two positions apart, go on past the trained "
    "length, know distances, and be simple."
)
_SHARES = (0.16, 0.15, 0.12, 0.12, 0.10, 0.25, 0.10)
_NOTE = (
    "Measured on scores of an untrained encoder (width 32, 4 heads, 32 tokens) for one token repeated. "
    "The same: how far another seed moves them. "
    "Distinct: the two most similar rows, in nats. Past the length: 64 tokens read. Relative: share of the "
    "variance of scores that the distance explains. A: fitted to every other position of 128, error on the "
    "others; where there is none, its part for the first wave. Learned: numbers of one layer."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChecklistFigure(FigureSpec):
    """A row for each scheme, a column for each requirement."""

    view = "checklist"
    words = "what an encoding is asked for"
    search = "desiderata criteria deterministic distinct unique extrapolate bounded relative"
    order = 96
    least_px = 560.0
    reads_positions = True
    reads_checks = True

    checks: tuple[PositionCheck, ...] = ()

    @classmethod
    def of_positions(
        cls,
        tables: tuple[PositionTable, ...],
        only: str = "",
        checks: tuple[PositionCheck, ...] = (),
        **page: Any,
    ) -> "ChecklistFigure":
        return cls(checks=checks, **{**page, "title": "Position schemes, measured"})

    @property
    def is_empty(self) -> bool:
        return not self.checks

    def paint(self, painter: QPainter, rect: QRectF, palette: Palette) -> None:
        inner = rect.adjusted(_MARGIN_PX, _MARGIN_PX, -_MARGIN_PX, -_MARGIN_PX)
        painter.save()
        painter.setFont(font(SMALL_PX))
        painter.setPen(QColor(palette.muted))
        lefts = inner.left() + inner.width() * np.concatenate([[0.0], np.cumsum(_SHARES)])
        flags = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignBottom | Qt.TextFlag.TextWordWrap
        for column, head in enumerate(_HEADS):
            width = float(lefts[column + 1] - lefts[column]) - 8
            painter.drawText(QRectF(float(lefts[column]), inner.top(), width, _HEAD_PX - 6), flags, head)
        top, px = inner.top() + _HEAD_PX, SMALL_PX if inner.width() < _WIDE_PX else NORMAL_PX
        for check in self.checks:
            painter.setPen(QPen(QColor(palette.line), 1.0))
            painter.drawLine(QLineF(inner.left(), top, inner.right(), top))
            for column, (text, is_good) in enumerate(_cells(check)):
                painter.setFont(font(px, is_bold=column == 0))
                painter.setPen(QColor(palette.text if is_good else palette.muted))
                width = float(lefts[column + 1] - lefts[column]) - 8
                shown = QFontMetricsF(painter.font()).elidedText(text, Qt.TextElideMode.ElideRight, width)
                painter.drawText(QPointF(float(lefts[column]), top + 17), shown)
            top += _ROW_PX
        painter.setFont(font(SMALL_PX))
        painter.setPen(QColor(palette.muted))
        for k, line in enumerate(wrapped((_NOTE,), inner.width())):
            painter.drawText(QPointF(inner.left(), top + 20 + k * LINE_PX), line)
        painter.restore()

    def natural_height(self, width: float) -> float:
        n_lines = len(wrapped((_NOTE,), width - 2 * _MARGIN_PX))
        return 2 * _MARGIN_PX + _HEAD_PX + len(self.checks) * _ROW_PX + 20 + n_lines * LINE_PX

    def rows(self) -> Iterator[Iterable[str]]:
        numbers = ("seed_change", "least_apart", "past_change", "by_distance", "shift_error")
        yield ("scheme", *numbers, "a00", "a01", "a10", "a11", "n_parameters", "formula", "source")
        for check in self.checks:
            values = [*(getattr(check, name) for name in numbers), *check.shift.flatten().tolist()]
            words = (safe_cell(check.formula), safe_cell(check.source))
            yield (safe_cell(check.name), *map(exact_number_text, values), str(check.n_parameters), *words)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        names = ("seed_change", "least_apart", "past_change", "by_distance", "shift_error", "n_parameters")
        found: dict[str, NDArray[np.generic]] = {
            name: np.array([getattr(check, name) for check in self.checks]) for name in names
        }
        found["shift"] = np.array([check.shift for check in self.checks])
        found["names"] = np.array([check.name for check in self.checks], dtype=np.str_)
        return found

    def fits_together(self) -> bool:
        return all(check.shift.shape == (2, 2) for check in self.checks)


def checklist_point(checks: tuple[PositionCheck, ...]) -> str:
    """A requirement for an encoding, and the schemes that meet all of it; A concerns tables alone."""
    if not checks:
        return f"{_ASKED} Every scheme is measured now…"
    whole = [check.title for check in checks if all(is_good for _, is_good in _cells(check)[:5])]
    simple = [check.title for check in checks if check.title in whole and not check.n_parameters]
    nothing = f", of these {listed(simple)} learn nothing" if simple else ""
    return f"{_ASKED} {len(whole) or 'None'} of {len(checks)} schemes have the first four{nothing}."


def _cells(check: PositionCheck) -> tuple[tuple[str, bool], ...]:
    """Text of each column, and whether it is as desired."""
    has_vectors = check.shift_error == check.shift_error
    is_exact = has_vectors and check.shift_error < _FITS
    a = "; ".join(f"{left:.2f} {right:.2f}" for left, right in check.shift.tolist()).replace("-", "−")
    shift = f"[{a}]" if is_exact else f"error {percent(check.shift_error)}" if has_vectors else "–"
    is_same, is_read = check.seed_change < _SAME, check.past_change == check.past_change
    by_distance = check.by_distance
    return (
        (check.title, True),
        ("yes" if is_same else f"no: {format_number(check.seed_change)} nats", is_same),
        (f"{format_number(check.least_apart)} nats" if check.least_apart else "no", check.least_apart > 0),
        ("yes" if is_read else "ends there", is_read),
        (percent(by_distance), by_distance >= _RELATIVE),
        (shift, is_exact),
        (f"{check.n_parameters:,}" if check.n_parameters else "nothing", not check.n_parameters),
    )
