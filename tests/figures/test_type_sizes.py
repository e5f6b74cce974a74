"""Type as large as it is asked for, whatever was asked for before."""

import pytest
from PySide6.QtGui import QFont, QFontMetricsF

from attnscope.figures import font, paper_type, set_type_factor, text_width

pytestmark = pytest.mark.qt


@pytest.fixture(autouse=True)
def type_at_its_own_size(qapp):
    yield
    set_type_factor(1.0)


def measured(text: str, height_px: int, *, is_bold: bool) -> float:
    made = QFont()
    made.setPixelSize(height_px)
    made.setBold(is_bold)
    made.setHintingPreference(QFont.HintingPreference.PreferNoHinting)
    made.setFeature(QFont.Tag("tnum"), 1)
    return QFontMetricsF(made).horizontalAdvance(text)


@pytest.mark.parametrize("is_bold", [False, True])
def test_that_widths_follow_the_size_of_type_at_every_moment(is_bold: bool):
    words = "the animal 0.88"
    for factor, height_px in ((1.0, 11), (1.5, 16), (1.0, 11), (2.0, 22)):
        set_type_factor(factor)
        assert text_width(words, 11, is_bold=is_bold) == measured(words, height_px, is_bold=is_bold)
        assert font(11).pixelSize() == height_px
        with paper_type():
            assert text_width(words, 11, is_bold=is_bold) == measured(words, 11, is_bold=is_bold)
            assert font(11).pixelSize() == 11
        assert font(11).pixelSize() == height_px


def test_that_a_font_that_was_changed_changes_no_other():
    changed = font(13)
    changed.setPixelSize(40)
    changed.setUnderline(True)
    assert (font(13).pixelSize(), font(13).underline()) == (13, False)
    looks = [(is_bold, is_italic) for is_bold in (False, True) for is_italic in (False, True)]
    for is_bold, is_italic in looks:
        made = font(13, is_bold=is_bold, is_italic=is_italic)
        assert (made.bold(), made.italic()) == (is_bold, is_italic)
