"""The training page: what it shows in each state, and what a person's hands ask for."""

import dataclasses
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtWidgets import (
    QAbstractSlider,
    QApplication,
    QCheckBox,
    QComboBox,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QSlider,
    QToolButton,
)
from pytestqt.qtbot import QtBot

from attnscope import paths
from attnscope.counting import number_text
from attnscope.figures import PROJECTOR, palette, render, set_type_factor
from attnscope.records import (
    BatchCell,
    BatchRow,
    BatchShown,
    Candidate,
    ControlTraining,
    Evaluated,
    Failed,
    Finished,
    FirstBatch,
    HeadRef,
    OpenRun,
    Output,
    Prediction,
    Ready,
    Request,
    Saved,
    ShowBatch,
    StartTraining,
    Step,
    Token,
    TraceText,
    TrainingEvent,
    TrainingNews,
)
from attnscope.viewmodels import Requests
from attnscope.viewmodels.session import Recents
from attnscope.viewmodels.training import IDLE, SweepState, TrainingState
from attnscope.widgets import Line, LinePlot, apply_theme, spread
from attnscope.widgets.training import (
    CostDialog,
    CurvesView,
    LongerDialog,
    RecipeEditor,
    ReplayBar,
    TrainingPage,
    WatchPanel,
    redraw_after_ms,
)
from attnscope.widgets.window import SteadyFocus

sys.path.append(str(Path(__file__).parents[1] / "viewmodels"))
from training_fakes import Clock, started, steps, traced

pytestmark = pytest.mark.qt
RECIPE = '[model]\nn_heads = 4\n\n[[watch]]\ntext = "the cat sat"\n'


class Desk:
    """A page on a state whose requests are kept."""

    def __init__(self, qtbot: QtBot, folder: Path) -> None:
        self.posted: list[Request] = []
        self.opened, self.recents = list[str](), Recents()
        self.clock = Clock()
        self.state = TrainingState(Requests(self.posted.append), clock=self.clock)
        self.page = TrainingPage(
            self.state, SweepState(self.state), self.recents, open_checkpoint=self.opened.append
        )
        qtbot.addWidget(self.page)
        self.state.place.choose(str(folder / "run"))
        self.page.resize(1200, 720)
        apply_theme(self.page, palette(False))

    def news(self, *events: TrainingEvent, is_paused: bool = False) -> None:
        number = [r.number for r in self.posted if isinstance(r, StartTraining)][-1]
        self.state.handle(TrainingNews(number=number, events=events, is_paused=is_paused))

    def answer(self) -> None:
        request = [r for r in self.posted if isinstance(r, TraceText)][-1]
        self.state.handle(traced(request, step=3))

    def button(self, text: str) -> QPushButton:
        found = (b for b in self.page.findChildren(QPushButton) if b.text() == text)
        return next(b for b in found if b.parentWidget() is not self.page.sweep_line)

    def texts(self) -> str:
        return "\n".join(label.text() for label in self.page.findChildren(QLabel))

    @property
    def editor(self) -> RecipeEditor:
        return self.page.findChild(RecipeEditor)


@pytest.fixture
def recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "resources" / "recipes"
    folder.mkdir(parents=True)
    (folder / "first.toml").write_text(RECIPE, encoding="utf-8")
    (folder / "second.toml").write_text("b = 2\n", encoding="utf-8")
    resources: Callable[[], Path] = folder.parent.absolute
    monkeypatch.setattr(paths, "resources_folder", resources)
    return folder


@pytest.fixture
def desk(qtbot: QtBot, tmp_path: Path, recipes: Path) -> Iterator[Desk]:
    desk = Desk(qtbot, tmp_path)
    desk.page.show()
    yield desk
    desk.page.hide()


def test_that_the_first_recipe_is_open_and_others_can_be_chosen(desk: Desk) -> None:
    assert desk.editor.toPlainText() == RECIPE
    combo = next(c for c in desk.page.findChildren(QComboBox) if c.accessibleName() == "Recipe file")
    assert [combo.itemText(i) for i in range(combo.count())] == ["first", "second"]
    combo.setCurrentIndex(1)
    combo.activated.emit(1)
    assert desk.editor.toPlainText() == "b = 2\n"


def test_that_the_run_before_is_offered_until_a_run_is_shown(
    desk: Desk, qtbot: QtBot, tmp_path: Path
) -> None:
    earlier, gone = tmp_path / ("a" * 40), tmp_path / "gone"
    earlier.mkdir()
    (earlier / "recipe.toml").write_text(RECIPE, encoding="utf-8")
    offer = next(b for b in desk.page.findChildren(QPushButton) if b.text().startswith("Open the last run"))
    assert not offer.isVisible()
    desk.recents.add_run(str(gone))
    assert not offer.isVisible()  # it is there no more
    desk.recents.add_run(str(earlier))
    assert offer.isVisible()
    assert offer.text() == f"Open the last run: {'a' * 27}…"
    qtbot.mouseClick(offer, Qt.MouseButton.LeftButton)
    film = str(paths.resources_folder() / "films" / "reverse")  # what is seen before there is a run
    assert [r.folder for r in desk.posted if isinstance(r, OpenRun)] == [film, str(earlier)]
    qtbot.mouseClick(desk.button("Start"), Qt.MouseButton.LeftButton)
    desk.news(started(10))
    assert not offer.isVisible()


def test_that_the_page_opens_on_how_the_last_run_went(qtbot: QtBot, tmp_path: Path, recipes: Path) -> None:
    (tmp_path / "last").mkdir()
    (tmp_path / "last" / "recipe.toml").write_text(RECIPE, encoding="utf-8")
    posted: list[Request] = []
    state = TrainingState(Requests(posted.append))
    page = TrainingPage(state, SweepState(state), Recents(runs=(str(tmp_path / "last"),)))
    qtbot.addWidget(page)
    page.show()
    page.hide()
    page.show()  # asked for once
    assert [r.folder for r in posted if isinstance(r, OpenRun)] == [str(tmp_path / "last")]


def test_that_a_fault_in_the_recipe_is_shown_at_once_and_stops_start(desk: Desk) -> None:
    desk.editor.setPlainText("a = 1\nb = \n")
    assert "Line 2" in desk.texts()
    assert not desk.button("Start").isEnabled()
    assert len(desk.editor.extraSelections()) == 1
    desk.editor.setPlainText("a = 1\n")
    assert desk.button("Start").isEnabled()
    assert not desk.editor.extraSelections()


def test_that_typing_keeps_the_cursor(desk: Desk, qtbot: QtBot) -> None:
    desk.editor.moveCursor(desk.editor.textCursor().MoveOperation.End)
    qtbot.keyClicks(desk.editor, "# note")
    assert desk.state.recipe.text == RECIPE + "# note"
    assert desk.editor.textCursor().atEnd()


def test_that_buttons_follow_the_run(desk: Desk, qtbot: QtBot) -> None:
    qtbot.mouseClick(desk.button("Start"), Qt.MouseButton.LeftButton)
    assert desk.state.run.status.phase == "starting"
    assert not desk.button("Start").isEnabled()
    assert desk.editor.isReadOnly()
    desk.news(started(), *steps(1, 3))
    qtbot.mouseClick(desk.button("Pause"), Qt.MouseButton.LeftButton)
    desk.news(is_paused=True)
    qtbot.mouseClick(desk.button("Resume"), Qt.MouseButton.LeftButton)
    qtbot.mouseClick(desk.button("Stop"), Qt.MouseButton.LeftButton)
    assert [r.action for r in desk.posted if isinstance(r, ControlTraining)] == ["pause", "resume", "stop"]
    desk.news(Finished(step=3, reason="stopped"))
    assert "Stopped at step 3" in desk.texts()
    assert not desk.editor.isReadOnly()


def test_that_space_after_pause_does_not_stop_the_run(desk: Desk, qtbot: QtBot) -> None:
    SteadyFocus(desk.page)
    desk.page.show()
    desk.page.activateWindow()
    qtbot.waitUntil(desk.page.isActiveWindow)
    desk.state.start()
    desk.news(started(), *steps(1, 2))
    pause = desk.button("Pause")
    pause.setFocus()
    for _ in range(3):
        qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Space)
    assert [r.action for r in desk.posted if isinstance(r, ControlTraining)] == ["pause"]
    desk.news(is_paused=True)
    assert desk.button("Resume").hasFocus()  # where the person was


def test_that_keys_start_pause_and_stop(desk: Desk) -> None:
    keys = [action.shortcut().toString() for action in desk.page.actions_of_run[:3]]
    assert keys == ["Ctrl+Return", "Ctrl+Shift+Return", "Ctrl+."]
    for action in desk.page.actions_of_run[:1]:
        action.trigger()
    assert desk.state.run.status.phase == "starting"


def test_that_a_failed_start_marks_the_line_and_leaves_the_text(desk: Desk) -> None:
    desk.state.start()
    number = desk.posted[-1].number
    message = "model.n_heads is 4. Expected: 8. Change it. <b>not bold</b>"
    desk.state.handle(Failed(number=number, request="StartTraining", message=message))
    assert message in desk.texts()
    assert len(desk.editor.extraSelections()) == 1
    assert not desk.editor.isReadOnly()
    assert desk.button("Start").isEnabled()
    desk.state.tick()
    assert message in desk.texts()
    desk.state.recipe.edit(RECIPE.replace("4", "8"))
    desk.state.tick()
    assert desk.state.run.status == IDLE, "what could not be started is not what is there now"
    assert message not in desk.texts()


def test_that_devices_are_offered(desk: Desk) -> None:
    desk.state.handle(Ready(devices=("cpu", "cuda"), demo_models=()))
    combo = next(c for c in desk.page.findChildren(QComboBox) if c.accessibleName() == "Device")
    assert [combo.itemData(i) for i in range(combo.count())] == ["auto", "cpu", "cuda"]
    combo.setCurrentIndex(2)
    combo.activated.emit(2)
    assert desk.state.place.device == "cuda"


def test_that_files_are_chosen_into_the_recipe_and_the_run(
    desk: Desk, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    places = "attnscope.widgets.training.run_panel"
    monkeypatch.setattr(f"{places}.QFileDialog.getOpenFileName", lambda *_: (str(tmp_path / "words.txt"), ""))
    monkeypatch.setattr(f"{places}.ask_new_folder", lambda *_: str(tmp_path / "elsewhere"))
    choose_data(desk, "File…")
    button = next(b for b in desk.page.findChildren(QToolButton) if b.toolTip() == "Choose: run folder")
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert desk.state.recipe.data_path == str(tmp_path / "words.txt")
    assert desk.state.place.folder == str(tmp_path / "elsewhere")


def test_that_texts_and_pictures_are_chosen_as_a_folder_or_as_a_file(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    places = "attnscope.widgets.training.run_panel"
    monkeypatch.setattr(f"{places}.QFileDialog.getOpenFileName", lambda *_: (str(tmp_path / "a.npz"), ""))
    monkeypatch.setattr(f"{places}.ask_folder", lambda *_: str(tmp_path / "many"))
    for kind, folder, file in (
        ("text", "Folder of texts…", "File…"),
        ("pictures", "Folder of pictures…", "NPZ file…"),
        ("pairs", "Folder of texts…", "File…"),
    ):
        desk.state.recipe.edit(f'[data]\nkind = "{kind}"\n')
        for name, chosen in ((folder, "many"), (file, "a.npz")):
            choose_data(desk, name)
            assert desk.state.recipe.data_path == str(tmp_path / chosen)


def choose_data(desk: Desk, name: str) -> None:
    """Take an entry of the menu of the button after Data."""
    button = next(b for b in desk.page.findChildren(QToolButton) if b.toolTip() == "Choose: data")
    assert button.popupMode() == QToolButton.ToolButtonPopupMode.InstantPopup
    next(action for action in button.menu().actions() if action.text() == name).trigger()


def complete(desk: Desk) -> int:
    """Train on the page to the end; the number of steps."""
    desk.state.start()
    Path(desk.state.place.folder).mkdir(parents=True)
    (Path(desk.state.place.folder) / "recipe.toml").write_text(RECIPE, encoding="utf-8")
    n_steps = started().n_steps
    begun = dataclasses.replace(started(), folder=desk.state.place.folder)
    desk.news(begun, *steps(1, n_steps), Finished(step=n_steps, reason="done"))
    return n_steps


def test_that_a_complete_run_offers_a_new_folder_and_more_steps(desk: Desk, qtbot: QtBot) -> None:
    n_steps = complete(desk)
    assert desk.state.is_complete
    assert desk.button("Go on…").isEnabled()
    qtbot.mouseClick(desk.button("Go on…"), Qt.MouseButton.LeftButton)
    dialog = desk.page.findChild(LongerDialog)
    assert dialog.n_more.value() == n_steps
    assert [button for button in dialog.findChildren(QPushButton) if button.isDefault()] == [dialog.go_on]
    dialog.n_more.setValue(7)
    assert f"jumps at step {n_steps + 1:,}" in desk.texts()
    qtbot.mouseClick(dialog.go_on, Qt.MouseButton.LeftButton)
    request = [r for r in desk.posted if isinstance(r, StartTraining)][-1]
    assert request.may_lengthen
    assert f"n_steps = {n_steps + 7}" in request.recipe
    assert request.out == desk.state.run.folder
    assert len(desk.state.run.curves.train_loss) == n_steps
    assert not desk.button("Start").isEnabled()


def test_that_return_goes_on_with_a_complete_run_and_escape_does_not(desk: Desk, qtbot: QtBot) -> None:
    complete(desk)
    for key, n_begun in ((Qt.Key.Key_Escape, 0), (Qt.Key.Key_Return, 1)):
        before = sum(isinstance(r, StartTraining) for r in desk.posted)
        qtbot.mouseClick(desk.button("Go on…"), Qt.MouseButton.LeftButton)
        dialog = next(d for d in desk.page.findChildren(LongerDialog) if d.isVisible())
        qtbot.keyClick(dialog.n_more, key)
        assert not dialog.isVisible()
        assert sum(isinstance(r, StartTraining) for r in desk.posted) - before == n_begun


def test_that_a_complete_run_can_be_left_for_a_new_folder(desk: Desk, qtbot: QtBot) -> None:
    complete(desk)
    qtbot.mouseClick(desk.button("New folder"), Qt.MouseButton.LeftButton)
    assert desk.button("Start").isEnabled()


def test_that_a_folder_with_a_run_says_that_start_continues_it(
    desk: Desk, tmp_path: Path, qtbot: QtBot
) -> None:
    folder = tmp_path / "old"
    folder.mkdir()
    (folder / "recipe.toml").write_text(RECIPE, encoding="utf-8")
    desk.state.place.choose(str(folder))
    assert desk.button("Continue").isEnabled()
    names = ("Continue", "Pause", "Stop", "Open…")
    qtbot.waitUntil(
        lambda: all(desk.button(name).width() >= desk.button(name).sizeHint().width() for name in names)
    )
    qtbot.mouseClick(desk.button("New folder"), Qt.MouseButton.LeftButton)
    assert desk.button("Start").isEnabled()
    assert desk.state.place.folder != str(folder)


def test_that_the_sentence_is_drawn_and_heads_can_be_chosen(desk: Desk) -> None:
    desk.state.start()
    desk.news(started(), *steps(1, 3))
    desk.answer()
    desk.answer()
    panel = desk.page.findChild(WatchPanel)
    assert "L1H0 cross · at step 3" in desk.texts()
    panel._grid.head_selected.emit(HeadRef(stack="cross", layer=0, head=1), False)
    request = desk.posted[-1]
    assert isinstance(request, TraceText)
    assert request.heads == (HeadRef(stack="cross", layer=0, head=1),)


def test_that_a_model_without_attention_says_where_its_hidden_map_is(desk: Desk) -> None:
    desk.state.start()
    desk.news(started(), *steps(1, 3))
    request = [r for r in desk.posted if isinstance(r, TraceText)][-1]
    desk.state.handle(replace(traced(request, step=3), grids=(), maps=()))
    assert "This model has no attention" in desk.texts()
    assert "Hidden attention" in desk.texts()
    assert not desk.page.findChild(WatchPanel)._maps.isVisible()


def test_that_typing_a_sentence_asks_for_it(desk: Desk, qtbot: QtBot) -> None:
    desk.state.start()
    desk.news(started())
    desk.answer()
    desk.answer()
    field = next(f for f in desk.page.findChildren(QLineEdit) if f.accessibleName() == "Sentence to watch")
    field.clear()
    qtbot.keyClicks(field, "x")
    request = desk.posted[-1]
    assert isinstance(request, TraceText)
    assert request.text == "x"


def test_that_the_slider_replays_the_right_checkpoint_and_opens_it(desk: Desk, qtbot: QtBot) -> None:
    desk.state.start()
    desk.news(started(), *(Saved(step=n, folder=f"run/{n}") for n in (10, 20, 30)))
    desk.answer()
    desk.answer()
    bar = desk.page.findChild(ReplayBar)
    slider = bar.findChild(QSlider)
    assert (slider.maximum(), slider.value()) == (3, 3)
    slider.triggerAction(QAbstractSlider.SliderAction.SliderSingleStepSub)
    slider.triggerAction(QAbstractSlider.SliderAction.SliderSingleStepSub)
    assert desk.state.watch.replay.checkpoint is not None
    assert desk.state.watch.replay.checkpoint.folder == "run/20"
    assert "step 20  (2 of 3)" in desk.texts()
    qtbot.mouseClick(desk.button("Open in Explore"), Qt.MouseButton.LeftButton)
    assert desk.opened == ["run/20"]


def test_that_new_checkpoints_do_not_move_the_place(desk: Desk) -> None:
    desk.state.start()
    desk.news(started(), Saved(step=10, folder="run/10"), Saved(step=20, folder="run/20"))
    desk.state.watch.replay.go_to(0)
    for n in range(30, 100, 10):
        desk.news(Saved(step=n, folder=f"run/{n}"))
    assert desk.state.watch.replay.slider_place == 0
    desk.news(started(10))
    assert desk.state.watch.replay.slider_place == 0


SAYS = (
    Prediction(
        position=0, context="", candidates=(Candidate(token=Token(id=1, piece="be"), probability=0.25),)
    ),
)


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (Output(kind="translation", predictions=(), generated="la zone"), "writes “la zone”"),
        (Output(kind="translation", predictions=()), ""),
        (Output(kind="translation", predictions=SAYS), "writes no word"),  # as an untrained model does
        (Output(kind="nothing", predictions=()), ""),
        (Output(kind="next-token", predictions=SAYS), "says “be” 25 %"),
    ],
)
def test_that_the_model_s_own_answer_stands_with_its_attention(
    desk: Desk, output: Output, words: str
) -> None:
    desk.page.show()
    desk.state.start()
    desk.news(started(), *steps(1, 3))
    request = [r for r in desk.posted if isinstance(r, TraceText)][-1]
    seen = traced(request, step=3)
    told = dataclasses.replace(seen.comparison, before=output, after=output)
    desk.state.handle(dataclasses.replace(seen, comparison=told))
    note = desk.page.findChild(WatchPanel)._note.full_text()
    assert note.startswith(words)
    assert note.endswith("at step 3")


def test_that_a_click_on_a_curve_moves_the_map_and_the_curve_marks_where_it_is(
    desk: Desk, qtbot: QtBot
) -> None:
    desk.page.show()
    desk.state.start()
    saved = (Saved(step=step, folder=f"run/{step}") for step in (10, 20, 40))
    desk.news(started(n_steps=40), *steps(1, 40), *saved, Finished(step=40, reason="done"))
    desk.page._on_tick()
    curves = desk.page.findChild(CurvesView)
    loss = curves.findChildren(LinePlot)[0]
    view = loss.getPlotItem().getViewBox()
    for step, shown in ((1.0, 10), (24.0, 20), (39.0, 40)):
        place = loss.mapFromScene(view.mapViewToScene(QPointF(step, sum(view.viewRange()[1]) / 2)))
        qtbot.mouseClick(loss.viewport(), Qt.MouseButton.LeftButton, pos=place)
        assert desk.state.watch.replay.checkpoint.step == shown
        desk.page._on_tick()
        assert (loss._looked_at.isVisible(), loss._looked_at.value()) == (True, shown)
    qtbot.mousePress(loss.viewport(), Qt.MouseButton.LeftButton, pos=place)
    qtbot.mouseRelease(loss.viewport(), Qt.MouseButton.LeftButton, pos=place - QPoint(60, 0))
    assert desk.state.watch.replay.checkpoint.step == 40  # a drag moves the picture


def test_that_curves_become_a_figure(desk: Desk) -> None:
    assert desk.page.figure_spec() is None
    desk.state.start()
    desk.news(started(), *steps(1, 50), Evaluated(step=50, loss=1.0, accuracy=0.5))
    spec = desk.page.figure_spec()
    assert spec is not None
    assert spec.view == "curves"
    assert [chart.title for chart in spec.charts] == [
        "Loss",
        "Learning rate",
        "Gradient norm",
        "Speed",
        "Accuracy",
    ]
    names = [(series.name, series.has_label) for series in spec.charts[0].series]
    assert names == [("train, every step", False), ("train", True), ("validation", True)]


def test_that_steps_are_numbered_by_whole_numbers_on_the_page_and_in_the_figure(
    desk: Desk, qtbot: QtBot
) -> None:
    desk.state.start()
    desk.news(started(n_steps=3), *steps(1, 3), Finished(step=3, reason="done"))
    desk.page._on_tick()
    plot = desk.page.findChild(CurvesView).findChildren(LinePlot)[0]
    axis = plot.getPlotItem().getAxis("bottom")
    numbers = [value for _, values in axis.tickValues(0.0, 3.0, 400.0) for value in values]
    assert sorted(numbers) == [0.0, 1.0, 2.0, 3.0]
    plot.set_whole_x(False)  # seconds are measured, not counted
    assert len([value for _, values in axis.tickValues(0.0, 3.0, 400.0) for value in values]) > 4
    spec = desk.page.figure_spec()
    assert spec is not None
    root = ElementTree.fromstring(render(spec, "svg"))
    texts = ["".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "2" in texts
    assert not {"1.5", "2.5", "0.5"} & set(texts)


def test_that_the_value_under_the_cursor_is_read_out(desk: Desk, qtbot: QtBot) -> None:
    desk.state.start()
    desk.news(started(n_steps=50), *steps(1, 50))
    desk.page._on_tick()
    view = desk.page.findChild(CurvesView)
    with qtbot.waitSignal(view.hover_text) as heard:
        view._on_cursor_moved(10.2)
    assert heard.args is not None
    assert "step 10" in heard.args[0]
    assert "loss train 0.3" in heard.args[0]
    view._on_cursor_left()


def test_that_new_steps_redraw_one_curve_at_a_time_and_nothing_twice(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.state.start()
    desk.news(started(), *steps(1, 50))
    for _ in range(5):
        desk.page._on_tick()
    drawn: list[object] = []
    monkeypatch.setattr(LinePlot, "set_lines", lambda self, _lines, **_: drawn.append(self))
    desk.page._on_tick()
    assert not drawn
    desk.news(*steps(51, 51))
    for n_drawn in (1, 2, 3, 4, 4):
        desk.page._on_tick()
        assert len(drawn) == n_drawn
    assert len(set(drawn)) == 4


def test_that_axes_stand_still_while_the_data_fill_them_and_are_not_painted_anew(desk: Desk) -> None:
    desk.state.start()
    desk.news(started(), *steps(1, 40))
    plot = desk.page.findChild(CurvesView).findChild(LinePlot).getPlotItem()
    for _ in range(5):
        desk.page._on_tick()
    desk.page.grab()
    before = plot.getViewBox().viewRange()
    painted = [plot.getAxis(side).picture for side in ("left", "bottom")]
    desk.news(*steps(41, 60))
    for _ in range(5):
        desk.page._on_tick()
    assert plot.getViewBox().viewRange() == before
    assert None not in painted
    assert [plot.getAxis(side).picture for side in ("left", "bottom")] == painted


@pytest.mark.parametrize(("worked_ms", "after_ms"), [(0.0, 100), (10.0, 100), (40.0, 200), (3e4, 500)])
def test_that_curves_are_redrawn_ten_times_a_second_and_less_often_where_that_costs_more(
    worked_ms: float, after_ms: int
) -> None:
    assert redraw_after_ms(worked_ms) == after_ms


def test_that_the_last_evaluation_of_a_run_is_drawn_as_soon_as_it_ends(desk: Desk, qtbot: QtBot) -> None:
    desk.page.show()
    desk.state.start()
    desk.news(started(n_steps=40), *steps(1, 39))
    desk.page._timer.setInterval(10_000)  # as slow as drawing may have made it, and more
    desk.news(*steps(40, 40), Evaluated(step=40, loss=1.0, accuracy=0.5), Finished(step=40, reason="done"))
    view = desk.page.findChild(CurvesView)
    qtbot.waitUntil(lambda: {len(line.xs) for line in view._parts[0].plot._lines} == {1, 40}, timeout=3000)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 0.0])
def test_that_odd_values_can_be_drawn_on_either_axis(desk: Desk, value: float) -> None:
    odd = Step(step=4, loss=value, learning_rate=value, gradient_norm=value, tokens_per_s=value)
    desk.state.start()
    desk.news(started(), *steps(1, 3), odd, *steps(5, 6))
    view = desk.page.findChild(CurvesView)
    for is_log in (False, True):
        view.findChild(QCheckBox).setChecked(is_log)
        desk.page._on_tick()
        desk.page.grab()


def test_that_one_point_alone_can_be_seen(qtbot: QtBot) -> None:
    plot = LinePlot()
    qtbot.addWidget(plot)
    plot.resize(200, 100)
    with qtbot.waitExposed(plot):
        plot.show()
    pictures = []
    for colour in ("#ff0000", "#00ff00"):
        plot.set_lines((Line(xs=_numbers(1), ys=_numbers(1), colour=colour),))
        pictures.append(plot.grab().toImage())
    assert pictures[0] != pictures[1]
    plot.hide()


@pytest.mark.parametrize("shares", [(1.0, 1.0), (0.2, 1.0), (0.97, 0.99)])
def test_that_an_axis_of_shares_ends_at_one(qtbot: QtBot, shares: tuple[float, float]) -> None:
    plot = LinePlot()
    qtbot.addWidget(plot)
    plot.resize(200, 100)
    plot.is_share = True
    line = Line(xs=_numbers(2), ys=np.array(shares), colour="#ff0000")
    plot.set_lines((line,))
    low, high = plot.getPlotItem().getViewBox().viewRange()[1]
    assert low < min(shares)
    assert max(shares) < high <= 1.0 + 0.06 * (1.0 - low) + 1e-9
    plot.is_share = False
    plot.set_lines((Line(xs=_numbers(2), ys=np.array([2.0, 2.0]), colour="#ff0000"),))
    assert plot.getPlotItem().getViewBox().viewRange()[1][1] > 2.1


def test_that_both_themes_and_a_small_window_can_be_drawn(desk: Desk) -> None:
    desk.state.start()
    desk.news(started(), *steps(1, 20))
    desk.answer()
    for is_dark in (True, False):
        apply_theme(desk.page, palette(is_dark))
        desk.page.resize(700, 500)
        assert not desk.page.grab().isNull()


def test_that_a_plot_zooms_and_fits_again(qtbot: QtBot) -> None:
    plot = LinePlot(label_px=80)
    qtbot.addWidget(plot)
    plot.resize(400, 200)
    with qtbot.waitExposed(plot):
        plot.show()
    line = Line(xs=_numbers(100), ys=_numbers(100), colour="#000000", label="<b>x</b>")
    plot.set_lines((line,))
    assert plot.visible_x() == pytest.approx((0.0, 99.0))
    plot.getPlotItem().getViewBox().setRange(xRange=(10, 20), padding=0)
    plot._on_moved_by_hand(None)
    plot.set_lines((line,))
    assert plot.visible_x() == pytest.approx((10.0, 20.0))
    qtbot.mouseDClick(plot.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(200, 100))
    assert plot.visible_x() == pytest.approx((0.0, 99.0))
    plot.hide()


def test_that_names_and_values_of_one_run_are_whole_in_large_type(desk: Desk, qtbot: QtBot) -> None:
    set_type_factor(1.45)
    try:
        apply_theme(desk.page, palette(False))
        apply_theme(desk.page, palette(False))
        desk.page.resize(1190, 720)
        with qtbot.waitExposed(desk.page):
            desk.page.show()
        desk.state.start()
        desk.news(started(), *steps(1, 20), Evaluated(step=20, loss=0.00132456, accuracy=1.0))
        for _ in range(8):
            desk.page._on_tick()
        loss = desk.page._curves._parts[0]
        for is_over in (False, True):
            if is_over:
                loss.plot.cursor_moved.emit(20.0)
            labels = [label.text() for label in loss.plot._labels._items if label.isVisible()]
            assert sorted(labels) == ["train", "validation"]
            qtbot.waitUntil(lambda: loss._value.text() == loss.values)
            assert "validation 0.001325" in loss.values
    finally:
        set_type_factor(1.0)


def test_that_all_curves_of_a_run_are_seen_at_once_in_large_type(desk: Desk, qtbot: QtBot) -> None:
    large = PROJECTOR
    set_type_factor(large.type_factor)
    try:
        apply_theme(desk.page, large)
        apply_theme(desk.page, large)
        desk.page.resize(1194, 714)  # what bars leave of 1280 × 800
        with qtbot.waitExposed(desk.page):
            desk.page.show()
        desk.state.start()
        desk.news(started(), *steps(1, 20))
        for news, more in (((), []), ((Evaluated(step=20, loss=0.0013, accuracy=1.0),), ["Accuracy"])):
            desk.news(*news)
            for _ in range(8):
                desk.page._on_tick()
            curves = desk.page._curves
            room = desk.page.upper_tabs._pages.currentWidget().viewport()
            qtbot.waitUntil(lambda curves=curves, room=room: curves.height() <= room.height())
            shown = [part for part in curves._parts[1:] if part.isVisible()]
            assert [part.title for part in shown][3:] == more
            assert [part.plot._has_x_numbers for part in shown] == [False] * (len(shown) - 1) + [True]
            areas = [part.plot.getPlotItem().getViewBox().height() for part in shown]
            assert min(areas) >= 16
    finally:
        set_type_factor(1.0)


def test_that_every_curve_shows_the_whole_run_and_follows_a_zoom(desk: Desk, qtbot: QtBot) -> None:
    desk.page.resize(1280, 800)
    with qtbot.waitExposed(desk.page):
        desk.page.show()
    desk.state.start()
    desk.news(started(), *steps(1, 200))
    desk.answer()
    plots = [part.plot for part in desk.page._curves._parts if part.isVisible()]
    assert len(plots) >= 4
    for _ in range(6):  # one plot is drawn in a turn
        desk.page._curves.redraw()
        desk.page.grab()
    ends = {plot.visible_x()[1] for plot in plots}
    assert len(ends) == 1
    assert ends.pop() >= 200
    plots[2].getPlotItem().getViewBox().setXRange(20, 60, padding=0)
    plots[2]._on_moved_by_hand(None)
    desk.page.grab()
    assert all(plot.visible_x() == pytest.approx((20, 60)) for plot in plots)
    plots[1].fit()
    plots[1].view_changed.emit()
    assert all(plot.visible_x()[1] >= 200 for plot in plots)
    desk.page.hide()


def _numbers(n: int) -> np.ndarray:
    return np.arange(n, dtype=np.float64)


def test_that_labels_never_overlap_and_stay_inside() -> None:
    places = spread([5.0, 6.0, 7.0, 95.0, 99.0], 13.0, 0.0, 100.0)
    assert all(b - a >= 13.0 - 1e-9 for a, b in pairwise(places))
    assert places[0] >= 6.5
    assert places[-1] <= 93.5


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1.23456, "1.235"),
        (-0.5, "−0.5"),
        (12345.6, "12,346"),
        (9999.4, "9999"),
        (9999.6, "10,000"),
        (0.0006, "0.0006"),
        (1.25e-7, "1.25·10⁻⁷"),
        (float("nan"), "not a number"),
        (float("inf"), "∞"),
    ],
)
def test_that_numbers_have_four_digits(value: float, text: str) -> None:
    assert number_text(value) == text


def test_that_no_plot_makes_a_menu_that_nobody_opens(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["pyqtgraph.graphicsItems.ViewBox.ViewBox"]
    monkeypatch.setattr(module, "ViewBoxMenu", lambda _: pytest.fail("made in vain"))
    qtbot.addWidget(LinePlot())


@pytest.mark.slow
def test_that_the_frames_of_ten_seconds_of_plotting_at_60_hz_do_not_abort(desk: Desk) -> None:
    """PySide6 6.12 under Python 3.11 loses references to None while painting, and aborts within 2 s."""
    desk.state.start()
    desk.news(started(n_steps=10_000))
    desk.page._timer.setInterval(16)
    done = 0
    for _ in range(625):
        desk.news(*steps(done + 1, done + 10))
        done += 10
        desk.page._on_tick()
        QApplication.processEvents()  # paints, as after 16 ms
    assert desk.state.run.curves.last_step == done


def test_that_a_task_is_asked_for_no_data_and_a_text_is_needed_to_start(qtbot: QtBot, tmp_path: Path) -> None:
    desk = Desk(qtbot, tmp_path)
    field = next(f for f in desk.page.findChildren(QLineEdit) if "data" in f.placeholderText())
    desk.page.show()
    assert desk.state.recipe.name == "reverse"
    assert not field.isEnabled()
    assert "Makes its own data" in field.placeholderText()
    desk.state.recipe.edit('[data]\nkind = "text"\n')
    assert field.isEnabled()
    assert not desk.state.can_start
    assert "Give the file to train on" in desk.texts()


def test_that_the_first_batch_is_asked_for_when_it_is_looked_at_and_again_for_another_recipe(
    desk: Desk, qtbot: QtBot
) -> None:
    desk.state.tick()
    dialog = CostDialog(desk.state)
    qtbot.addWidget(dialog)
    dialog.show()
    assert not [r for r in desk.posted if isinstance(r, ShowBatch)]
    dialog.tabs.show_panel("What it reads")
    (asked,) = (r for r in desk.posted if isinstance(r, ShowBatch))
    assert asked.recipe == RECIPE
    text = dialog.findChild(QPlainTextEdit, "", Qt.FindChildOption.FindChildrenRecursively)
    assert text.toPlainText() == "Reading the data…"
    cells = (BatchCell(piece="<mask>", told="cat"), BatchCell(piece="<pad>", is_padding=True))
    row = BatchRow(source=(), cells=cells)
    batch = FirstBatch(rows=(row,), n_rows=1, n_tokens=2, n_padding=1, n_predicted=1)
    desk.state.handle(BatchShown(number=asked.number, batch=batch))
    lines = [line.split() for line in text.toPlainText().splitlines()]
    assert lines[-3:] == [["reads", "<mask>"], ["predicts", "cat"], ["padding", "1"]]
    qtbot.mouseClick(
        next(b for b in dialog.findChildren(QPushButton) if b.text() == "Read again"),
        Qt.MouseButton.LeftButton,
    )
    again = [r for r in desk.posted if isinstance(r, ShowBatch)][-1]
    assert again.number != asked.number
    desk.state.handle(BatchShown(number=asked.number, batch=batch))  # too late
    assert text.toPlainText() == "Reading the data…"
    desk.state.handle(BatchShown(number=again.number, batch=None, problem="no such file"))
    assert "no such file" in [label.text() for label in dialog.findChildren(QLabel)]
    sample = next(one for one in dialog.findChildren(QLabel) if "sample text" in one.text())
    assert sample.isHidden()
    desk.state.handle(BatchShown(number=again.number, batch=batch, is_sample=True))
    assert not sample.isHidden()


def test_that_the_line_above_the_curves_fits_beside_an_open_history(qtbot: QtBot) -> None:
    view = CurvesView(lambda: ())
    qtbot.addWidget(view)
    assert view.minimumSizeHint().width() <= 507  # at 1280 px with a panel of 280 at the window's edge
