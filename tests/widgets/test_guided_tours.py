"""Every step of every tour in the real window, with the real worker: a tour cannot rot unseen."""

import math
import re

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from attnscope.app import Program
from attnscope.crash import CrashLog
from attnscope.paths import resources_folder
from attnscope.settings import Settings, StartOptions
from attnscope.viewmodels.tours import NUMBERS, read_tours

pytestmark = pytest.mark.qt
TOURS = read_tours(resources_folder() / "tours")
_NUMBER = re.compile(r"[−-]?\d[\d,]*\.?\d*")


@pytest.fixture
def program(qtbot, tmp_path, monkeypatch):
    monkeypatch.setattr("attnscope.paths.runs_folder", lambda: tmp_path / "runs")
    made = Program(
        settings=Settings(theme="light"),
        crash_log=CrashLog(tmp_path / "logs"),
        options=StartOptions(source="grammar"),
        is_remembering=False,
    )
    made.show()
    made.window.resize(1280, 800)
    qtbot.waitUntil(lambda: made.session.traced is not None, timeout=60_000)
    yield made
    made.close()
    qtbot.waitUntil(lambda: not made.worker.isRunning(), timeout=10_000)
    made.window.deleteLater()
    made.deleteLater()


def _settle(qtbot, tours) -> None:
    qtbot.waitUntil(lambda: tours.phase in ("shown", "failed"), timeout=60_000)
    assert tours.phase == "shown", f"{tours.tour.name} step {tours.index + 1}: {tours.error}"


def _check_step(qtbot, program) -> None:
    tours, learning = program.window.learning.tours, program.window.learning
    _settle(qtbot, tours)
    where = f"{tours.tour.name}, step {tours.index + 1}"
    for name, value in tours.numbers.items():
        assert (value or "").strip(), f"{where}: there is no number {{{name}}}"
        assert "nan" not in value.lower().split(), f"{where}: {{{name}}} is {value}"
        for number in _NUMBER.findall(value):
            assert math.isfinite(float(number.replace("−", "-").replace(",", "").rstrip(".") or 0))
    assert not tours.unmet, f"{where}: the text claims what is not so: {tours.unmet}"
    target = learning.places.widget(tours.step.point)
    assert target is not None, f"{where}: there is no {tours.step.point}"
    assert target.isVisible(), f"{where}: {tours.step.point} cannot be seen"
    assert learning.pointer.target is target
    qtbot.waitUntil(learning.pointer.isVisible, timeout=5_000)  # it comes when the layout has settled
    assert "{" not in learning.panel.text.toPlainText() + learning.panel.formula.text()


def _take(qtbot, program, tour) -> None:
    """Go through one tour as a person would, and see that what was there before comes back."""
    learning, session = program.window.learning, program.session
    before, page = session.setting, program.window.view.page
    learning.start_tour(tour.name)
    for k, step in enumerate(tour.steps):
        assert learning.tours.index == k
        _check_step(qtbot, program)
        if step.ask is not None:
            QTest.mouseClick(learning.panel.do_button, Qt.MouseButton.LeftButton)
            _settle(qtbot, learning.tours)
            assert learning.tours.is_task_done, f"{tour.name}, step {k + 1}: the task is not done"
        learning.tours.next()
    assert not learning.tours.is_on
    assert not learning.bar.isVisible()
    assert learning.tours.steps_seen(tour) == len(tour.steps)
    program.training.stop()
    qtbot.waitUntil(lambda: not program.training.run.is_active, timeout=30_000)
    qtbot.waitUntil(lambda: session.opening.busy is None and session.setting == before, timeout=60_000)
    qtbot.waitUntil(lambda: not session.tracing.is_stale, timeout=60_000)
    assert program.window.view.page == page


@pytest.mark.long
def test_that_every_step_of_every_tour_resolves_in_the_real_window(qtbot, program):
    for tour in TOURS:
        _take(qtbot, program, tour)


def test_that_every_number_a_text_names_is_known():
    named = {name for tour in TOURS for step in tour.steps for name in step.placeholders}
    named |= {claim.name for tour in TOURS for step in tour.steps for claim in step.expect}
    assert named <= NUMBERS.keys()


_POINTED = ("head", "steps", "grid", "answers")


def test_that_on_a_projector_what_is_pointed_at_is_large_enough_and_afterwards_all_is_back(qtbot, program):
    window, view = program.window, program.window.view
    view.set_theme("projector")
    explore = window.pages.explore
    parts = (explore.text_bar, explore.aspect_bar, explore.grid_panel, explore.inspector.gate)
    assert all(part.isVisible() for part in parts)
    assert not explore.inspector.measures.isVisible()  # they leave their room to the map, in large type
    window.learning.start_tour("attention")
    tours = window.learning.tours
    while tours.is_on:
        _settle(qtbot, tours)
        target = window.learning.places.widget(tours.step.point)
        if tours.step.point in _POINTED:
            qtbot.waitUntil(lambda shown=target: shown.height() >= 300, timeout=2000)
        tours.next()
    assert not view.folded
    qtbot.waitUntil(
        lambda: not program.session.tracing.is_stale and program.session.opening.busy is None, timeout=60_000
    )
    assert all(part.isVisible() for part in parts)
    assert not explore.inspector.measures.isVisible()
    view.set_theme("light")
    assert explore.inspector.measures.isVisible()


def test_that_a_step_makes_room_again_when_type_or_window_change(qtbot, program):
    window, view = program.window, program.window.view
    window.resize(1280, 800)
    window.learning.start_tour("alignment")
    tours = window.learning.tours
    tours.start("alignment", 0)
    _settle(qtbot, tours)
    assert tours.step.point == "grid"
    assert not view.folded
    view.set_theme("projector")
    qtbot.waitUntil(lambda: view.folded >= {"texts", "looks"}, timeout=2000)
    window.resize(2560, 1440)
    qtbot.waitUntil(lambda: not view.folded, timeout=2000)
    tours.leave()
    view.set_theme("light")


def test_that_a_kept_view_and_a_session_end_a_tour_and_are_not_taken_back_with_it(qtbot, program, tmp_path):
    window, session = program.window, program.session
    kept_views, learning = window.workspace.files.kept, window.learning
    window.actions_by_name["keep-view"].trigger()
    kept = session.setting
    learning.start_tour("alignment")
    _settle(qtbot, learning.tours)
    window.actions_by_name["keep-view"].trigger()  # a step can be kept, and the tour goes on
    assert learning.tours.is_on
    kept_views.go(0)
    assert not learning.tours.is_on
    assert not learning.bar.isVisible()
    qtbot.waitUntil(lambda: session.opening.busy is None and session.setting == kept, timeout=60_000)
    window.workspace.files.save_to(tmp_path / "talk.attnscope")
    learning.start_tour("heads")
    _settle(qtbot, learning.tours)
    window.workspace.files.open_path(str(tmp_path / "talk.attnscope"))
    qtbot.waitUntil(lambda: not learning.tours.is_on, timeout=60_000)
    qtbot.waitUntil(lambda: session.opening.busy is None and session.setting == kept, timeout=60_000)
    learning.tours.leave()
    assert session.setting == kept


def test_that_another_model_ends_a_tour_and_stays_and_the_tours_own_do_not(qtbot, program):
    window, session = program.window, program.session
    learning = window.learning
    learning.start_tour("alignment")
    tours = learning.tours
    _settle(qtbot, tours)
    own = session.model.name
    assert own == "grammar"
    other = next(name for name in session.demo_models if name != own)
    session.opening.load("no such model")  # nothing is opened: the tour goes on
    qtbot.waitUntil(lambda: session.opening.busy is None, timeout=60_000)
    assert tours.is_on
    session.notices.dismiss()
    session.opening.load(other)
    qtbot.waitUntil(lambda: not tours.is_on, timeout=60_000)
    assert not learning.bar.isVisible()
    qtbot.waitUntil(lambda: session.traced is not None, timeout=60_000)
    assert session.model.name == other
    learning.start_tour("alignment")  # opens its own model
    _settle(qtbot, tours)
    assert (tours.tour.name, session.model.name) == ("alignment", own)
    tours.leave()
    qtbot.waitUntil(lambda: session.opening.busy is None and session.model.name == other, timeout=60_000)
