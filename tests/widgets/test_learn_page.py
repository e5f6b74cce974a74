"""The Learn page and the bar of a tour, in a window with the real states and a worker that answers late."""

import dataclasses
import gc
import sys
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QTextDocument
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel

from attnscope.app import Program
from attnscope.crash import CrashLog
from attnscope.records import LoadModel, Pace, PlanRecipe, RecipePlanned, StartTraining
from attnscope.settings import SETTINGS_NAME, Settings, StartOptions, settings_from_json, settings_to_json
from attnscope.widgets.window import RichText, html_of, with_numbers

sys.path.append(str(Path(__file__).parents[1] / "viewmodels"))
from training_fakes import plan

pytestmark = pytest.mark.qt


@pytest.fixture
def program(qtbot, tmp_path, monkeypatch):
    """A program whose worker never starts; what it posts is kept in `posted`."""
    monkeypatch.setattr("attnscope.paths.runs_folder", lambda: tmp_path / "runs")
    monkeypatch.setattr("attnscope.paths.settings_folder", lambda: tmp_path / "settings")
    monkeypatch.setattr(Program, "_start_worker", lambda self: None)
    monkeypatch.setattr("attnscope.workers.threads.WorkerThread.post", lambda self, r: _POSTED.append(r))
    _POSTED.clear()
    made = Program(
        settings=Settings(theme="light", tours=(("alignment", 4), ("gone", 3)), recent_runs=("/a/run-one",)),
        crash_log=CrashLog(tmp_path / "logs"),
        options=StartOptions(),
        is_remembering=True,
    )
    made.show()
    yield made
    made.close()
    made.window.deleteLater()
    made.deleteLater()


_POSTED: list[object] = []


def _learn(program):
    program.window.actions_by_name["page-learn"].trigger()
    return program.window.learning


def test_that_the_first_start_of_all_invites_and_later_ones_do_not(program, tmp_path):
    learning = program.window.learning
    assert learning.invitation.isVisible()
    assert program.window.view.page == "explore"
    learning.invitation.open_button.click()
    assert program.window.view.page == "learn"
    assert not learning.invitation.isVisible()
    (tmp_path / "settings").mkdir(exist_ok=True)
    (tmp_path / "settings" / SETTINGS_NAME).write_text("{}")
    program.show()
    assert not learning.invitation.isVisible()


def test_that_who_opens_learn_is_not_invited_to_it(program):
    assert program.window.learning.invitation.isVisible()
    assert not _learn(program).invitation.isVisible()


def test_that_the_welcome_offers_tours_examples_lessons_and_what_was_recent(program):
    welcome = _learn(program).page.welcome
    assert len(welcome.tour_cards) == 8
    assert welcome.tour_cards["alignment"].side.text() == "4 of 10"
    assert welcome.tour_cards["attention"].side.text() == "10 steps"
    assert list(welcome.recent_cards) == ["/a/run-one"]
    for card in (*welcome.tour_cards.values(), *welcome.example_cards.values()):
        assert card.accessibleName()
        assert card.focusPolicy() == Qt.FocusPolicy.StrongFocus
    QTest.keyClick(welcome.example_cards["stories"], Qt.Key.Key_Return)
    assert program.window.view.page == "explore"
    assert [r.source for r in _POSTED if isinstance(r, LoadModel)] == ["stories"]
    assert all(label.textFormat() == Qt.TextFormat.PlainText for label in welcome.findChildren(QLabel))


def test_that_a_lesson_starts_its_recipe_in_a_fresh_run_folder(program, tmp_path):
    (tmp_path / "runs" / "reverse").mkdir(parents=True)
    QTest.mouseClick(_learn(program).page.welcome.lesson_cards["reverse"], Qt.MouseButton.LeftButton)
    (started,) = [request for request in _POSTED if isinstance(request, StartTraining)]
    assert started.out == str(tmp_path / "runs" / "reverse-2")
    assert 'task = "reverse"' in started.recipe
    assert program.window.view.page == "train"


def test_that_a_lesson_says_how_long_it_takes_here_as_the_train_page_would(program):
    welcome, training = _learn(program).page.welcome, program.training
    pace = Pace(flops_per_s=1e9, doubt=2.0, words="from the speed of a run")
    for name, seconds in (("copy", 21.0), ("pictures", 61.0), ("reverse", 400.0)):
        asked = _POSTED[-1]
        assert isinstance(asked, PlanRecipe)
        assert f'name = "{name}"' in asked.recipe
        planned = plan(flops_a_step=seconds * 1e9 / 100, n_steps=100)
        training.handle(RecipePlanned(number=asked.number, plan=planned))
        assert not welcome.lesson_cards[name].side.text(), "not before a time is known"
        training.handle(RecipePlanned(number=asked.number, plan=dataclasses.replace(planned, pace=pace)))
    sides = [card.side.text() for card in welcome.lesson_cards.values()]
    assert sides == ["about 20 s", "about 7 min", "about a minute"]
    assert "from the speed of a run" in welcome.lesson_cards["copy"].toolTip()
    assert training.planning.plan is None, "the Train page's own plan is another"


def test_that_train_and_learn_ask_alike_how_long_a_recipe_takes(program, tmp_path):
    training = program.training
    training.place.choose(str(tmp_path / "elsewhere"))
    asked = []
    for page in ("learn", "train", "learn", "train"):
        n_posted = len(_POSTED)
        program.window.actions_by_name[f"page-{page}"].trigger()
        if page == "train":
            training.tick()
        (plan_asked,) = [r for r in _POSTED[n_posted:] if isinstance(r, PlanRecipe)]
        asked.append(plan_asked)
        while page == "learn" and 'task = "reverse"' not in asked[-1].recipe:
            training.handle(RecipePlanned(number=asked[-1].number, plan=None, problem="-"))
            asked[-1] = _POSTED[-1]
    questions = [(r.recipe, r.device, r.base_folder, r.run_folders) for r in asked]
    assert questions == [questions[0]] * 4
    assert questions[0][3] == (str(tmp_path / "runs"), str(tmp_path / "elsewhere"))
    assert asked[0].place != asked[1].place, "neither question takes the place of the other"


def test_that_a_tour_goes_on_where_it_was_left_and_keys_walk_it(program):
    learning = _learn(program)
    learning.start_tour("alignment")
    panel, tours = learning.panel, learning.tours
    assert tours.index == 3
    assert "step 4 of 10" in panel.place.text()
    assert panel.doing.text() == "Opening the model…"
    assert "…" in panel.text.toPlainText(), "numbers that are on their way are shown as such"
    QTest.keyClick(panel.next_button, Qt.Key.Key_Right)
    assert tours.index == 4
    QTest.keyClick(panel.next_button, Qt.Key.Key_Left)
    QTest.keyClick(panel.back_button, Qt.Key.Key_Return)
    assert tours.index == 2
    QTest.keyClick(panel, Qt.Key.Key_Return)
    assert tours.index == 3
    assert panel.accessibleName().startswith("Cross-attention and alignment")
    QTest.keyClick(panel.next_button, Qt.Key.Key_Escape)
    assert not tours.is_on
    assert not learning.bar.isVisible()
    assert program.window.view.page == "learn", "the page comes back"
    assert dict(program.window.settings_snapshot().tours) == {"alignment": 5}


def test_that_keeping_leaves_the_window_as_it_is(program):
    learning = _learn(program)
    learning.start_tour("positions")
    assert program.window.view.page == "labs"
    learning.panel.keep_button.click()
    assert program.window.view.page == "labs"
    assert not learning.tours.is_on


def test_that_help_here_turns_to_the_page_that_is_shown(program):
    window, learning = program.window, program.window.learning
    window.view.show_page("labs")
    window.pages.labs.show_lab("Masks as structure")
    window.actions_by_name["help-here"].trigger()
    help_panel = learning.page.help
    assert (window.view.page, help_panel.shown) == ("learn", "labs")
    assert help_panel.text.verticalScrollBar().value() > 0
    window.view.show_page("train")
    window.page_bar.help_button.click()
    assert help_panel.shown == "train"
    help_panel.back_button.click()
    assert help_panel.shown == "labs"


def test_that_the_help_is_searched_and_its_links_lead_into_the_program(program):
    learning = program.window.learning
    learning.show_help("explore")
    help_panel = learning.page.help
    QTest.keyClicks(help_panel.search, "knock out edge")
    assert help_panel.list.item(0).text().startswith("Changing heads · One edge")
    QTest.keyClick(help_panel.search, Qt.Key.Key_Return)
    assert help_panel.shown == "interventions"
    QTest.keyClicks(help_panel.search, " zzz")
    assert help_panel.list.item(0).text().startswith("Nothing found")
    learning.follow("lab:rank-collapse")
    assert (program.window.view.page, program.window.pages.labs.shown) == ("labs", "Rank collapse")
    learning.follow("page:train")
    assert program.window.view.page == "train"
    learning.follow("https://example.org")
    assert program.window.view.page == "train"


def test_that_the_palette_finds_tours_and_help(program):
    titles = [offer.item.title for offer in program.window.learning.offers()]
    assert "Tour: What attention computes" in titles
    assert "Help: Glossary" in titles


def test_that_progress_survives_the_settings_file():
    settings = Settings(tours=(("attention", 3),), recent_runs=("/a",))
    assert settings_from_json(settings_to_json(settings)) == settings


def test_that_measuring_the_height_of_a_text_leaves_no_document_behind(qtbot) -> None:
    def documents() -> int:
        gc.collect()
        return sum(isinstance(one, QTextDocument) for one in gc.get_objects())

    text = RichText(13)
    qtbot.addWidget(text)
    text.set_html(html_of("some words **that** are read " * 9, {}))
    text.show()
    heights, before = set(), documents()
    for width_px in range(120, 400, 20):
        text.resize(width_px, 40)
        heights.add(text.sizeHint().height())
    assert len(heights) > 3
    assert documents() == before
    whole = text.document().clone()
    whole.setTextWidth(text.viewport().width())
    assert text.sizeHint().height() == round(whole.size().height()) + 2


def test_that_numbers_from_texts_are_never_markup():
    shown = html_of("**a** *d* {key} `b`\n\nc", {"key": "<img src=x>"})
    assert "<b>a</b>" in shown
    assert "<code>b</code>" in shown
    assert "<i>d</i>" in shown
    assert "<img" not in shown
    assert "&lt;img" in shown
    assert shown.count("<p") == 2
    assert with_numbers("{key} {other}", {"key": None}) == "– –"


def test_that_cards_of_one_line_can_be_seen(program, qtbot):
    """What was recent once had no height at all."""
    welcome = _learn(program).page.welcome
    qtbot.waitUntil(lambda: welcome.recent_cards["/a/run-one"].height() > 20, timeout=2000)


def test_that_a_high_window_lists_the_steps_of_tours_and_the_labs(program, qtbot):
    window, welcome = program.window, _learn(program).page.welcome
    card = welcome.tour_cards["alignment"]
    window.resize(1280, 800)
    qtbot.wait(1)
    assert not card.steps
    window.resize(1920, 1080)
    qtbot.waitUntil(lambda: bool(card.steps) and card.steps[9].isVisible(), timeout=2000)
    assert [step.text().split()[0] for step in card.steps[:5]] == ["✓", "✓", "✓", "✓", "5"]
    qtbot.waitUntil(lambda: welcome.lab_cards["Masks as structure"].isVisible(), timeout=2000)
    card.steps[6].click()
    tours = window.learning.tours
    assert (tours.tour.name, tours.index) == ("alignment", 6)
    tours.leave()
    window.actions_by_name["page-learn"].trigger()
    welcome.lab_cards["Masks as structure"].click()
    assert (window.view.page, window.pages.labs.shown) == ("labs", "Masks as structure")


def test_that_in_three_columns_the_labs_stand_below_the_tours_and_not_at_the_end_of_the_others(
    program, qtbot
):
    welcome = _learn(program).page.welcome
    program.window.resize(2000, 1300)
    card = welcome.lab_cards["Kernel regression"]
    qtbot.waitUntil(card.isVisible, timeout=2000)

    def place(widget):
        return widget.mapTo(welcome.widget(), widget.rect().topLeft())

    tours, examples = [list(cards.values()) for cards in (welcome.tour_cards, welcome.example_cards)]
    qtbot.waitUntil(lambda: place(card).y() > place(tours[-1]).y(), timeout=2000)
    assert place(card).x() == place(tours[0]).x()
    assert all(place(lab).x() < place(examples[0]).x() for lab in welcome.lab_cards.values())
    assert welcome.verticalScrollBar().maximum() < 120


def test_that_beside_a_drawer_cards_stand_in_one_column_and_a_tab_tells_its_own_width(program):
    program.window.resize(1000, 640)
    welcome = _learn(program).page.welcome
    assert welcome.widget().minimumSizeHint().width() <= welcome.viewport().width()
    program.window.actions_by_name["kept-views"].trigger()
    QTest.qWait(10)
    assert welcome.widget().minimumSizeHint().width() <= welcome.viewport().width()
    assert welcome.viewport().width() < 690
    heads = program.window.pages.heads_tabs
    widths = {}
    for title in ("Table", "Weights", "Table"):
        heads.tabs.show_panel(title)
        widths[title] = heads.minimumSizeHint().width()
    assert widths["Table"] == heads.table.minimumSizeHint().width() < widths["Weights"]


def test_that_links_of_the_help_open_questions_recipes_and_models(program):
    learning, states = program.window.learning, program.states
    learning.follow("ask:experts")
    assert (program.window.view.page, states.asking.question.name) == ("explore", "experts")
    assert program.window.pages.explore.answers.is_shown("Ask")
    learning.follow("recipe:set-anomaly")
    assert (program.window.view.page, states.training.recipe.name) == ("train", "set-anomaly")
    assert not states.training.run.is_active
    learning.follow("model:stories")
    assert (program.window.view.page, states.session.opening.busy.source) == ("explore", "stories")
