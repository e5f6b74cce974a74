"""What stands where: the status bar on pages without maps, names of labs, axes without curves."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QAction, QImage, QPainter
from session_samples import Desk, lab_states, state_of, tokens

from attnscope.figures import DARK, LIGHT, PROJECTOR, paint_chart, type_at
from attnscope.labs import LABS
from attnscope.records import Chart, Series, TokenizerRow, TokenizersNews
from attnscope.viewmodels import ViewState
from attnscope.widgets import LabPlot, PlainLabel, apply_theme
from attnscope.widgets.labs import LabView, TokenizersView, make_lab
from attnscope.widgets.window import StatusBar

GRADIENT_BY_DISTANCE = LABS["Gradient by distance"]
PAST_THE_TRAINED_LENGTH = LABS["Past the trained length"]

pytestmark = pytest.mark.qt


def test_that_pages_without_maps_of_the_model_say_nothing_about_them(qtbot):
    desk, view = Desk().open(), ViewState()
    bar = StatusBar(desk.session, view, undo=QAction(), redo=QAction())
    qtbot.addWidget(bar)
    parts = (bar.badge, bar.duration, bar.heads_off)
    assert not any(part.isHidden() for part in parts)
    for page in ("labs", "learn"):
        view.show_page(page)
        assert all(part.isHidden() for part in parts)
    view.show_page("explore")
    assert not any(part.isHidden() for part in parts)


def test_that_a_lab_has_the_title_of_its_name_in_the_list(qtbot):
    states, seen = lab_states(), 0
    for entry in LABS.values():
        lab = make_lab(entry, states)
        qtbot.addWidget(lab)
        if isinstance(lab, LabView):
            assert entry.name in {label.text() for label in lab.findChildren(PlainLabel)}
            seen += 1
    assert seen > 8


def test_that_tokenizers_have_no_axes_before_they_are_measured(qtbot):
    asked: list[Any] = []
    state = state_of("labs.tokenizers", asked.append)
    view = TokenizersView(state)
    qtbot.addWidget(view)
    assert view.length_chart.isHidden()
    assert not view.empty.isHidden()
    state.start()
    row = TokenizerRow(
        kind="bpe", asked=50, vocab_size=50, n_tokens=9, tokens_per_word=1.5, density=3.0, n_used=3,
        sentence=tokens("the cat").tokens,
    )  # fmt: skip
    state.handle(TokenizersNews(number=asked[-1].number, rows=(row,), is_done=True))
    assert not view.length_chart.isHidden()
    assert view.empty.isHidden()


def test_that_a_gradient_that_grows_in_an_lstm_is_explained_and_not_called_its_gate():
    shown = GRADIENT_BY_DISTANCE.resolve(replace(GRADIENT_BY_DISTANCE.example, forget_bias=3.0))
    growing = shown.words.sentence
    assert shown.gated[47] > 1
    assert "an LSTM's × 2.9 with forget gates near 0.95: above 1, as its gates read h" in growing
    shrinking = GRADIENT_BY_DISTANCE.resolve(
        replace(GRADIENT_BY_DISTANCE.example, forget_bias=-2.0)
    ).words.sentence
    assert "above 1" not in shrinking
    assert len(growing) < 235  # two lines of the lab


def test_that_the_clocks_of_the_rotation_fill_their_panel_and_each_has_its_words(qtbot):
    shown = PAST_THE_TRAINED_LENGTH.resolve(PAST_THE_TRAINED_LENGTH.example)
    chart = next(chart for chart in PAST_THE_TRAINED_LENGTH.charts(shown) if chart.title == "Rotation")
    canvas = QImage(420, 324, QImage.Format.Format_RGB32)
    painter = QPainter(canvas)
    layout = paint_chart(painter, QRectF(0, 0, 420, 324), chart, palette=LIGHT)
    painter.end()
    (left, right), _ = layout.place(np.array([-1.0, 1.0]), np.zeros(2))
    assert right - left > 84
    plot = LabPlot()
    qtbot.addWidget(plot)
    plot.resize(350, 270)
    plot.show()
    plot.show_chart(chart)
    words = [item.text() for item in plot._notes]
    assert words == [word for _, _, word in chart.notes]
    assert words[0].startswith(f"{shown.pairs[0].pair}: ")
    assert len({(item.pos().x(), item.pos().y()) for item in plot._notes}) == len(shown.pairs)


@pytest.mark.parametrize("width", [600, 330, 200])
def test_that_no_name_below_a_chart_is_left_out_or_touches_another(qtbot, width):
    names = ("tokens", "L0", "L1", "L2", "L3", "norm", "head")
    xs = np.arange(1.0, len(names) + 1)
    line = Series(name="moved", xs=xs, ys=xs)
    plot = LabPlot()
    qtbot.addWidget(plot)
    plot.resize(width, 220)
    plot.show()
    plot.show_chart(Chart(title="Change", x_label="", y_label="", series=(line,), x_names=names))
    shown = [item for item in plot._names if item.isVisible()]
    assert [item.text() for item in shown] == list(names)
    places = [item.sceneBoundingRect() for item in shown]
    assert not any(a.intersects(b) for k, a in enumerate(places) for b in places[k + 1 :])
    below = plot.getPlotItem().getViewBox().sceneBoundingRect().bottom()
    assert all(below <= place.top() and place.bottom() <= plot.height() for place in places)


@pytest.mark.parametrize("palette", [LIGHT, PROJECTOR], ids=["light", "projector"])
@pytest.mark.parametrize("height", [95, 120, 200])
def test_that_a_low_chart_has_numbers_beside_it_and_none_is_cut(qtbot, palette, height):
    xs = np.arange(1.0, 5.0)
    line = Series(name="p", xs=xs, ys=np.array([85.4, 71.9, 61.4, 54.2]), has_label=False)
    plot = LabPlot()
    qtbot.addWidget(plot)
    apply_theme(plot, palette)
    plot.resize(389, height)
    plot.show()
    plot.show_chart(
        Chart(title="p", x_label="", y_label="%", series=(line,), y_range=(0.0, 100.0), x_names=tuple("1234"))
    )
    axis, picture = plot.getPlotItem().getAxis("left"), QImage(389, height, QImage.Format.Format_RGB32)
    with QPainter(picture) as painter:
        painter.setFont(axis.style["tickFont"])
        _, _, texts = axis.generateDrawSpecs(painter)
    assert {"0", "100"} <= {text for _, _, text in texts}
    assert all(axis.mapRectToScene(place).top() >= 0.0 for place, _, _ in texts)


class CountedPlot(LabPlot):
    n_drawn = 0

    def show_chart(self, chart: Chart) -> None:
        self.n_drawn += 1
        super().show_chart(chart)


def test_that_a_hidden_chart_is_drawn_in_another_theme_when_it_is_shown(qtbot):
    plot = CountedPlot()
    qtbot.addWidget(plot)
    line = Series(name="a", xs=np.array([1.0, 2.0]), ys=np.array([1.0, 2.0]))
    apply_theme(plot, LIGHT)
    plot.show()
    plot.show_chart(Chart(title="", x_label="", y_label="", series=(line,)))
    plot.hide()
    apply_theme(plot, DARK)
    assert plot.n_drawn == 1
    plot.show()
    assert plot.n_drawn == 2
    assert plot.backgroundBrush().color().name() == DARK.background
    plot.hide()
    plot.show()
    assert plot.n_drawn == 2


def test_that_in_large_type_no_number_of_a_low_chart_lies_over_its_point(qtbot):
    xs, ys = np.array([1.0, 2.0, 3.0]), np.array([17.8, 39.9, 41.8])
    line = Series(name="published", xs=xs, ys=ys, has_points=True, has_label=False)
    notes = tuple((x, y + 9.0, f"{y:.3g}") for x, y in zip(xs.tolist(), ys.tolist(), strict=True))
    plot = LabPlot()
    qtbot.addWidget(plot)
    plot.resize(600, 140)
    plot.show()
    with type_at(1.8):
        plot.show_chart(
            Chart(title="", x_label="", y_label="", series=(line,), y_range=(0.0, 100.0), notes=notes)
        )
    view = plot.getPlotItem().getViewBox()
    points = [view.mapViewToScene(QPointF(x, y)) for x, y in zip(xs, ys, strict=True)]
    shown = [item.sceneBoundingRect() for item in plot._notes if item.isVisible()]
    assert len(shown) == 3
    assert not any(place.contains(point) for place in shown for point in points)


def test_that_a_low_chart_writes_the_numbers_at_both_ends_of_its_axis(qtbot):
    line = Series(name="precision", xs=np.array([1.0, 2.0]), ys=np.array([85.0, 54.0]))
    plot = LabPlot()
    qtbot.addWidget(plot)
    plot.resize(300, 140)
    plot.show()
    plot.show_chart(Chart(title="", x_label="", y_label="", series=(line,), y_range=(0.0, 100.0)))
    qtbot.wait(20)
    picture, box = plot.grab().toImage(), plot.getPlotItem().getViewBox().sceneBoundingRect()
    ground = picture.pixel(2, plot.height() - 2)
    ink = {y for y in range(plot.height()) for x in range(4, 44) if picture.pixel(x, y) != ground}
    for share in (0.03 / 1.06, 0.5, 1.03 / 1.06):
        y = round(box.bottom() - share * box.height())
        assert ink & set(range(y - 2, y + 3)), f"no number {share:.0%} up the axis"
