"""The checklist of position schemes: numbers against formulas and a slow version, page, files and command."""

import math

import numpy as np
import pytest
from PySide6.QtWidgets import QComboBox
from pytestqt.qtbot import QtBot
from session_samples import state_of

import attnscope as at
from attnscope.analysis import N_VECTORS, WIDTH, position_checks, position_tables
from attnscope.cli.main import main
from attnscope.counting import listed
from attnscope.figures.views import checklist_point
from attnscope.records import PositionCheck, PositionsShown
from attnscope.schemes.positions import POSITIONS
from attnscope.widgets.positions import PositionsPage

CHECKS = {check.name: check for check in position_checks()}
IN_SCORES = {name for name, scheme in POSITIONS.items() if scheme.is_of_text}
"""Schemes by which scores of equal tokens are those of the distance."""


def test_that_the_sentence_names_the_schemes_that_have_all_that_is_asked() -> None:
    checks = tuple(CHECKS.values())
    whole = [c for c in checks if c.seed_change < 1e-3 and c.least_apart > 0 and c.by_distance > 0.999]
    named = [c.title for c in whole if not np.isnan(c.past_change)]
    assert named[:2] == ["rotary", "ALiBi"]
    said = f"{len(named)} of {len(checks)} schemes have the first four, of these {listed(named)} learn"
    assert checklist_point(checks).endswith(f"{said} nothing.")
    assert checklist_point((CHECKS["learned"],)).endswith("None of 1 schemes have the first four.")
    assert checklist_point(()).endswith("Every scheme is measured now…")


def test_that_every_scheme_is_measured() -> None:
    assert list(CHECKS) == list(POSITIONS)


@pytest.mark.parametrize("name", POSITIONS)
def test_that_what_is_not_learned_is_the_same_each_time(name: str) -> None:
    check = CHECKS[name]
    assert (check.seed_change == 0) == (check.n_parameters == 0)
    # In a text without brackets a tree is one list, and its items after the first w are all alike.
    assert check.least_apart > 0 or name in ("none", "tree")


def test_that_only_a_learned_table_ends() -> None:
    assert [name for name, check in CHECKS.items() if math.isnan(check.past_change)] == ["learned"]
    assert all(check.past_change < 1e-5 for name, check in CHECKS.items() if name != "learned")


@pytest.mark.parametrize("name", POSITIONS)
def test_that_scores_of_one_token_repeated_are_those_of_the_distance_where_they_should(name: str) -> None:
    share = CHECKS[name].by_distance
    if name == "none":
        assert math.isnan(share)
    elif name in IN_SCORES:
        assert share == pytest.approx(1.0, abs=1e-6)
    else:
        assert -1e-9 <= share < 0.5


def test_that_the_slopes_of_alibi_are_as_far_apart_as_they_say() -> None:
    """With 4 heads the steepest slope is 1/4: rows of neighbours differ by that at every key."""
    assert CHECKS["alibi"].least_apart == pytest.approx(0.25, abs=1e-6)


def test_that_a_shift_of_sines_is_a_rotation_of_each_wave() -> None:
    """PE(t + 1) = A PE(t) with A = [[cos 1, sin 1], [−sin 1, cos 1]] for the first wave, of frequency 1."""
    c, s = math.cos(1.0), math.sin(1.0)
    np.testing.assert_allclose(CHECKS["sinusoidal"].shift, [[c, s], [-s, c]], atol=1e-4)
    np.testing.assert_allclose(CHECKS["rotary"].shift, [[c, -s], [s, c]], atol=1e-4)
    for name in ("sinusoidal", "rotary"):
        assert CHECKS[name].shift_error < 1e-6


@pytest.mark.parametrize("name", [name for name, scheme in POSITIONS.items() if scheme.page_title])
def test_that_the_error_is_that_of_least_squares(name: str) -> None:
    """Solved again by normal equations of the pseudo-inverse, in numpy."""
    vectors = POSITIONS[name].page_matrix(N_VECTORS, WIDTH)[0].double().numpy()
    before, after = vectors[:-1], vectors[1:]
    a = np.linalg.pinv(before[::2], rcond=1e-13) @ after[::2]
    error = np.linalg.norm(before[1::2] @ a - after[1::2]) / np.linalg.norm(after[1::2])
    assert CHECKS[name].shift_error == pytest.approx(error, rel=1e-3, abs=1e-5)


def test_that_schemes_without_vectors_have_no_matrix() -> None:
    for name, scheme in POSITIONS.items():
        assert math.isnan(CHECKS[name].shift_error) == (not scheme.page_title)


def test_that_it_is_drawn_and_written(tmp_path) -> None:
    out = tmp_path / "list.csv"
    wish = ("figure", "grammar", "--device", "cpu", "--view", "checklist", "--encodings", "sinusoidal")
    assert main([*wish, "-o", str(out)]) == 0
    lines = out.read_text().splitlines()
    assert [line.split(",")[0].strip('"') for line in lines] == ["scheme", *POSITIONS]
    made = at.positions_figure(encodings=("rotary",), n_positions=4, d_model=4, view="checklist")
    assert np.load(made.save(tmp_path / "list.npz"))["names"].tolist() == list(POSITIONS)
    drawn = made.save(tmp_path / "list.svg").read_text()
    for words in ("Transformer-XL", "[0.54 −0.84; 0.84 0.54]", "ends there", "distinct"):
        assert words in drawn
    again = at.load_figure(made.save(tmp_path / "list.figure.json"))
    assert again.save(tmp_path / "again.svg").read_text() == drawn


@pytest.mark.qt
def test_that_the_page_asks_for_it_once_and_shows_it(qtbot: QtBot) -> None:
    posted: list = []
    state = state_of("positions", posted.append)
    page = PositionsPage(state)
    qtbot.addWidget(page)
    page.show()

    def answer(checks: tuple[PositionCheck, ...] = ()) -> None:
        request = posted[-1]
        tables = position_tables(request.names, request.n_positions, request.d_model)
        state.handle(PositionsShown(number=request.number, tables=tables, checks=checks))

    assert not posted[-1].has_checks
    answer()
    views = page.findChild(QComboBox)
    views.setCurrentIndex(views.findText("Checklist"))
    views.activated.emit(views.currentIndex())
    assert posted[-1].has_checks
    answer(tuple(CHECKS.values()))
    assert len(posted) == 2
    assert not state.is_stale
    assert page.figure_spec().checks == tuple(CHECKS.values())
    state.set_n_positions(20)
    assert not posted[-1].has_checks
    answer()
    assert len(page.figure_spec().checks) == len(POSITIONS)
    page.hide()
