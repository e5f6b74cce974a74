"""The drawn schedule below a recipe: a band for the rate, and one for each thing that warms up."""

from pathlib import Path

import pytest
import torch
from PySide6.QtCore import QRect
from PySide6.QtGui import QColor
from pytestqt.qtbot import QtBot

from attnscope.figures import LIGHT, series_colour
from attnscope.records import Plan
from attnscope.training import parse_recipe, plan_recipe
from attnscope.widgets.training import RateStrip

pytestmark = pytest.mark.qt
REVERSE = (Path(__file__).parents[2] / "resources" / "recipes" / "reverse.toml").read_text()
WARM = {
    "schedule.batch_warmup_steps": "600",
    "schedule.batch_start": "8",
    "schedule.length_warmup_steps": "900",
    "schedule.length_start": "8",
}


def _plan(**wishes: str) -> Plan:
    return plan_recipe(parse_recipe(REVERSE, overrides=wishes), torch.device("cpu"))


def _drawn(strip: RateStrip, colour: str, area: QRect) -> list[int]:
    """The columns of an area in which a colour is seen."""
    image, wanted = strip.grab(area).toImage(), QColor(colour)
    return [
        x
        for x in range(image.width())
        if any(
            abs(image.pixelColor(x, y).hue() - wanted.hue()) < 12 and image.pixelColor(x, y).saturation() > 60
            for y in range(image.height())
        )
    ]


def test_that_what_warms_up_has_a_band_below_the_rate_and_words_with_units(qtbot: QtBot) -> None:
    strip = RateStrip()
    qtbot.addWidget(strip)
    strip.resize(380, 44)
    strip.show_plan(_plan())
    alone = strip.height()
    assert strip.toolTip() == "learning rate rises to 0.002 at step 100, falls to 0 at step 1,500"
    strip.show_plan(_plan(**WARM))
    assert strip.toolTip().split("\n")[1:] == [
        "batch size grows from 8 to 64 texts at step 601",
        "length grows from 8 to 32 tokens at step 901",
    ]
    below = (strip.height() - alone) // 2
    assert below > 20
    for band, colour in ((0, 5), (1, 6)):
        area = QRect(0, alone + band * below, strip.width(), below)
        assert len(_drawn(strip, series_colour(LIGHT, colour), area)) > 0.9 * strip.width()
    strip.show_plan(_plan())
    assert strip.height() == alone


def test_that_without_a_plan_nothing_is_drawn(qtbot: QtBot) -> None:
    strip = RateStrip()
    qtbot.addWidget(strip)
    strip.show_plan(_plan(**WARM))
    strip.show_plan(None)
    assert not strip.isVisibleTo(None)
    assert strip.toolTip() == ""
