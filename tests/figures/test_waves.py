"""Single dimensions of encodings: the numbers of the formula, in every format, on the page and by command."""

import math

import numpy as np
import pytest
from PySide6.QtWidgets import QComboBox, QLineEdit
from pytestqt.qtbot import QtBot
from session_samples import state_of

import attnscope as at
from attnscope.analysis import position_tables
from attnscope.cli.main import main
from attnscope.errors import UserError
from attnscope.figures.views import VIEWS
from attnscope.records import PositionsShown
from attnscope.widgets.positions import PositionsPage

WAVES = VIEWS["waves"]


def test_that_each_chart_says_the_formula_of_its_encoding_with_its_source() -> None:
    tables = position_tables(("sinusoidal", "binary"), n_positions=8, d_model=4)
    first, second = WAVES.of_positions(tables).charts()
    assert first.y_label.startswith("PE(t, 2i) = sin(t/10000^(2i/d)), PE(t, 2i+1)")
    assert first.y_label.endswith("(Vaswani et al. 2017)")
    assert "mod 2" in second.y_label


def test_that_curves_are_the_sines_and_cosines_of_the_formula(tmp_path) -> None:
    made = at.positions_figure(
        encodings=("sinusoidal",), n_positions=30, d_model=12, view="waves", only="0, 5, 10-11"
    )
    arrays = np.load(made.save(tmp_path / "waves.npz"))
    assert arrays["0_dimensions"].tolist() == [0, 5, 10, 11]
    for column, k in enumerate((0, 5, 10, 11)):
        wave = math.cos if k % 2 else math.sin
        expected = [wave(t / 10000 ** (2 * (k // 2) / 12)) for t in range(30)]
        np.testing.assert_allclose(arrays["0_values"][:, column], expected, atol=1e-6)
    lines = made.save(tmp_path / "waves.csv").read_text().splitlines()
    assert lines[0] == '"encoding","dimension","position","value"'
    assert len(lines) == 1 + 4 * 30
    drawn = made.save(tmp_path / "waves.svg").read_text()
    assert "dimension 10" in drawn
    again = at.load_figure(made.save(tmp_path / "waves.figure.json"))
    assert again.save(tmp_path / "again.svg").read_text() == drawn


def test_that_without_a_wish_dimensions_are_spread_and_fit_any_width() -> None:
    for width, expected in ((1, (0,)), (2, (0, 1)), (6, (0, 1, 3)), (128, (0, 16, 32, 64))):
        tables = position_tables(["learned"], 3, width)
        assert WAVES.of_positions(tables).dimensions == expected


def test_that_without_a_wish_bits_that_move_are_drawn_of_binary_numbers() -> None:
    tables = position_tables(("sinusoidal", "binary"), n_positions=64, d_model=128)
    figure = WAVES.of_positions(tables)
    names = [[line.name for line in chart.series] for chart in figure.charts()]
    assert names == [[f"dimension {k}" for k in held] for held in ((0, 16, 32, 64), (0, 1, 3))]
    for k, line in zip((0, 1, 3), figure.charts()[1].series, strict=True):
        np.testing.assert_array_equal(line.ys, [t >> k & 1 for t in range(64)])
    assert figure.arrays()["1_dimensions"].tolist() == [0, 1, 3]
    assert figure.shown_words() == ["dimensions 0, 16, 32, 64; of binary 0, 1, 3"]
    chosen = WAVES.of_positions(tables, "0, 16, 32")
    assert [line.name[10:] for line in chosen.charts()[1].series] == ["0", "16", "32"]
    (still,) = WAVES.of_positions(position_tables(("binary",), n_positions=1, d_model=8)).charts()
    assert len(still.series) == 4  # nothing moves: as asked


@pytest.mark.parametrize("only", ["a", "16", "3-", "-1", "2-16", "0-15", ",", "1.5"])
def test_that_a_wish_that_names_no_dimension_is_explained(only: str) -> None:
    with pytest.raises(UserError) as caught:
        WAVES.of_positions(position_tables(["rotary"], 4, 16), only)
    assert "from 0 to 15" in caught.value.expected


def test_that_an_encoding_with_fewer_columns_shows_those_that_it_has() -> None:
    tables = (*position_tables(["sinusoidal"], 8, 10), *position_tables(["binary"], 8, 4))
    made = WAVES.of_positions(tables, "1, 7")
    assert [[s.name for s in chart.series] for chart in made.charts()] == [
        ["dimension 1", "dimension 7"], ["dimension 1"],
    ]  # fmt: skip


def test_that_the_command_line_draws_it(tmp_path, capsys) -> None:
    out = tmp_path / "waves.csv"
    wish = ("figure", "grammar", "--device", "cpu", "--view", "waves", "--encodings", "sinusoidal,model")
    assert main([*wish, "--only", "4-6", "-o", str(out)]) == 0
    dimensions = {line.split(",")[1].strip('"') for line in out.read_text().splitlines()[1:]}
    assert dimensions == {"4", "5", "6"}
    assert main([*wish, "--only", "x", "-o", str(out)]) == 2
    assert "dimensions" in capsys.readouterr().err


@pytest.mark.qt
def test_that_the_page_shows_and_exports_it(qtbot: QtBot) -> None:
    posted: list = []
    state = state_of("positions", posted.append)
    page = PositionsPage(state)
    qtbot.addWidget(page)
    page.show()
    request = posted[-1]
    tables = position_tables(request.names, request.n_positions, request.d_model)
    state.handle(PositionsShown(number=request.number, tables=tables))
    views = page.findChild(QComboBox)
    views.setCurrentIndex(views.findText("Waves"))
    views.activated.emit(views.currentIndex())
    field = page.findChild(QLineEdit, "only")
    assert field.isVisible()
    field.setText("2, 3")
    field.textEdited.emit("2, 3")
    spec = page.figure_spec()
    assert (spec.view, spec.dimensions) == ("waves", (2, 3))
    field.setText("2, y")
    field.textEdited.emit("2, y")
    assert page.figure_spec() is None
    assert not page.grab().isNull()
    page.hide()
