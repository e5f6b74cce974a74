"""The table of the most probable tokens: what stands beside a bar does not lie on it."""

import pytest
from PySide6.QtGui import QColor, QFontMetricsF
from pytestqt.qtbot import QtBot

from attnscope.figures import SMALL_PX, font
from attnscope.records import Token
from attnscope.viewmodels.compare import CandidateRow
from attnscope.widgets.explore import CandidateTable

pytestmark = pytest.mark.qt


def test_that_a_number_begins_behind_its_bar(qtbot: QtBot) -> None:
    table = CandidateTable(1)
    qtbot.addWidget(table)
    table.resize(240, table.height())
    table.show_rows((CandidateRow(token=Token(id=5, piece=""), before=0.0001, after=None),))
    picture = table.grab().toImage()
    paper, grid = picture.pixelColor(239, 0), QColor(table.theme.grid)
    columns = {
        x: {picture.pixelColor(x, y).name() for y in range(20, picture.height())} for x in range(72, 160)
    }
    bar = [x for x, colours in columns.items() if grid.name() in colours]
    assert len(bar) > 20
    inked = [x for x in range(bar[-1] + 1, 160) if columns[x] != {paper.name()}]
    written = QFontMetricsF(font(SMALL_PX)).tightBoundingRect("<0.001").width()
    assert inked[-1] - inked[0] + 1 >= written - 1  # nothing of it is below the bar
