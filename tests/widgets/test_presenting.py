"""Presenting: one key leaves only what is to be looked at, another brings all of it back as it was."""

import re

import pytest
from inside_samples import inside
from PySide6.QtCore import QRect
from PySide6.QtGui import QFontMetricsF
from PySide6.QtWidgets import QPushButton, QStyle
from pytestqt.qtbot import QtBot
from session_samples import Desk, states_of

from attnscope.figures import NORMAL_PX, ROW_HEADER_PX, SMALL_PX, font, type_at, type_px, widest
from attnscope.paths import resources_folder
from attnscope.records import InsideShown, ShowInside
from attnscope.settings import Settings
from attnscope.viewmodels.session import MEASURES
from attnscope.widgets import ROW_PX
from attnscope.widgets.explore import names_px
from attnscope.widgets.window import MainWindow, usable_geometry

pytestmark = pytest.mark.qt


@pytest.fixture
def window(qtbot: QtBot) -> MainWindow:
    made = MainWindow(states_of(Desk().open().session), Settings(theme="light"))
    qtbot.addWidget(made)
    made.resize(1280, 800)
    made.show()
    qtbot.waitUntil(lambda: made.pages.explore.pictures.isVisible(), timeout=2000)
    return made


def test_that_f11_leaves_only_data_and_esc_brings_everything_back(qtbot: QtBot, window: MainWindow) -> None:
    explore = window.pages.explore
    gone = (window.top_bar, window.page_bar, explore.aspect_bar, explore.inspector)
    kept = (explore.grid_panel, explore.head_panel.heatmap, explore.answers, explore.text_bar)
    qtbot.wait(20)  # until the page has its size
    before = [splitter.sizes() for splitter in explore.splitters().values()]
    assert window.actions_by_name["present"].shortcut().toString() == "F11"
    window.actions_by_name["present"].trigger()
    assert not any(part.isVisible() for part in gone)
    assert all(part.isVisible() for part in (*kept, window.status_bar))
    assert window.actions_by_name["dismiss"].isEnabled()
    window.actions_by_name["page-labs"].trigger()
    assert not window.pages.labs.list.isVisible()
    window.actions_by_name["page-explore"].trigger()
    window.actions_by_name["dismiss"].trigger()
    assert all(part.isVisible() for part in (*gone, *kept))
    qtbot.wait(20)
    after = [splitter.sizes() for splitter in explore.splitters().values()]
    assert [sizes[0] for sizes in after] == [sizes[0] for sizes in before]
    window.actions_by_name["page-labs"].trigger()
    assert window.pages.labs.list.isVisible()


def test_that_the_head_of_a_lecture_has_the_room_and_the_grid_stands_above_the_answers(
    qtbot: QtBot, window: MainWindow
) -> None:
    explore = window.pages.explore
    qtbot.wait(20)
    before = side_of_map(window)
    window.actions_by_name["present"].trigger()
    assert window.workspace._session.notices.shown is not None
    qtbot.waitUntil(lambda: side_of_map(window) > 1.2 * before, timeout=2000)
    assert window.focusWidget() is explore.grid_panel.grid
    grid, answers = explore.grid_panel, explore.answers
    assert grid.geometry().bottom() <= answers.geometry().top()
    assert grid.parentWidget() is answers.parentWidget()
    window.actions_by_name["own-grid"].trigger()  # which ends it, so that the panel has a place to go back to
    assert not window.view.is_presenting
    assert window.workspace._session.notices.shown is None
    window.actions_by_name["own-grid"].trigger()
    assert explore.pictures.indexOf(grid) == 0


@pytest.mark.parametrize(("drawer", "name"), [("history", "history"), ("kept-views", "kept")])
def test_that_nothing_of_a_page_lies_below_a_drawer(
    qtbot: QtBot, window: MainWindow, drawer: str, name: str
) -> None:
    explore, panel = window.pages.explore, getattr(window.workspace, name)
    window.actions_by_name[drawer].trigger()
    ends = (explore.text_bar.samples_button, explore.head_panel.heading.colours)

    def is_beside() -> bool:
        left = panel.mapTo(window, panel.rect().topLeft()).x()
        return all(part.mapTo(window, part.rect().topRight()).x() < left for part in ends)

    qtbot.waitUntil(is_beside, timeout=2000)
    assert not explore.side.isVisible()
    window.actions_by_name["page-heads"].trigger()
    assert panel.isVisible()
    window.actions_by_name[drawer].trigger()
    window.actions_by_name["page-explore"].trigger()
    assert explore.side.isVisible()


def test_that_a_window_closed_while_presenting_is_remembered_as_it_was(window: MainWindow) -> None:
    before = dict(window.settings_snapshot().splitters)
    window.actions_by_name["present"].trigger()
    window.close()
    after = dict(window.settings_snapshot().splitters)
    assert after.keys() == before.keys()
    for name, sizes in before.items():  # heights are laid out anew where the bars were; shares stay
        assert after[name] == pytest.approx(sizes, abs=40), name
    assert not window.view.is_presenting


def test_that_help_is_wrapped_beside_an_open_panel(qtbot: QtBot, window: MainWindow) -> None:
    window.learning.show_help("explore")
    reader, drawer = window.learning.page.help.text, window.workspace.kept
    wide = reader.width()
    window.actions_by_name["kept-views"].trigger()
    qtbot.waitUntil(lambda: reader.width() < wide, timeout=2000)
    right = reader.mapTo(window, reader.rect().topRight()).x()
    assert right <= drawer.mapTo(window, drawer.rect().topLeft()).x()
    assert reader.horizontalScrollBar().maximum() == 0
    window.actions_by_name["kept-views"].trigger()
    qtbot.waitUntil(lambda: reader.width() == wide, timeout=2000)


def test_that_the_cards_of_learn_use_the_width_that_is_there(qtbot: QtBot, window: MainWindow) -> None:
    window.actions_by_name["page-learn"].trigger()
    welcome = window.learning.page.welcome
    places = {}
    for width in (1280, 2560):
        window.resize(width, 800)
        qtbot.waitUntil(lambda wide=width: welcome.width() > wide - 200, timeout=2000)
        cards = (
            welcome.tour_cards["attention"],
            welcome.lesson_cards["copy"],
            welcome.example_cards["stories"],
        )
        qtbot.wait(1)
        tours, lessons, examples = (card.mapTo(window, card.rect().topLeft()).x() for card in cards)
        assert len({tours, examples}) == 2
        places[width] = (lessons == tours, lessons == examples)
        assert max(card.width() for card in welcome.example_cards.values()) < 700
    assert places == {1280: (True, False), 2560: (False, False)}


def test_that_no_help_page_and_no_tour_names_a_number_of_the_catalogue() -> None:
    folder = resources_folder()
    for path in (*(folder / "help").glob("*.md"), *(folder / "tours").glob("*.toml")):
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line[:7] != "entries"]
        assert not re.search(r"\bC\d{1,2}\b", "\n".join(lines)), path.name


def test_that_compare_leaves_its_measures_out_where_a_drawer_leaves_little_room(window: MainWindow) -> None:
    page = window.pages.compare
    page.give_way(500)
    assert page.measures.isHidden()
    page.give_way(5000)
    assert not page.measures.isHidden()


def test_that_another_sentence_can_be_typed_while_presenting(qtbot: QtBot, window: MainWindow) -> None:
    text = window.pages.explore.text_bar
    window.actions_by_name["present"].trigger()
    assert text.text_edit.isVisible()
    assert not text.source_strip.isVisible()
    text.text_edit.setFocus()
    text.text_edit.selectAll()
    qtbot.keyClicks(text.text_edit, "another one")
    assert window.pages.explore._session.text == "another one"
    assert window.view.is_presenting


def test_that_labels_are_read_from_the_back_of_a_room_and_grow_with_the_cells(
    qtbot: QtBot, window: MainWindow
) -> None:
    head = window.pages.explore.head_panel
    small = head.heatmap.layout_now()
    window.actions_by_name["present"].trigger()
    for picture in (head.heatmap, head.lines):
        assert SMALL_PX * picture.type_factor() >= 0.025 * window.height()
        assert picture.type_factor(10.0) == picture.type_factor()
        assert picture.type_factor(180.0) > 1.2 * picture.type_factor()
        assert SMALL_PX * picture.type_factor(9000.0) <= 0.05 * window.height()
    large = head.heatmap.layout_now()
    assert large.row_width > 1.5 * min(small.row_width, 54)
    with type_at(head.heatmap.type_factor()):
        assert large.row_width >= widest(head.heatmap.shown.queries)


def side_of_map(window: MainWindow) -> float:
    cells = window.pages.explore.head_panel.heatmap.layout_now().cells
    return min(cells.width(), cells.height())


def test_that_large_type_takes_no_room_from_the_map_and_gives_the_columns_back(
    qtbot: QtBot, window: MainWindow
) -> None:
    explore = window.pages.explore
    qtbot.wait(20)
    side, before = side_of_map(window), {n: s.sizes() for n, s in explore.splitters().items()}
    remembered = window.settings_snapshot().splitters
    for _ in range(2):
        window.view.set_theme("projector")
        qtbot.waitUntil(lambda: side_of_map(window) >= side, timeout=2000)
        assert explore.inspector.isVisible()
        assert window.settings_snapshot().splitters == remembered
        window.actions_by_name["present"].trigger()
        window.actions_by_name["dismiss"].trigger()
        qtbot.waitUntil(lambda: side_of_map(window) >= side, timeout=2000)
        window.view.set_theme("light")
        qtbot.waitUntil(
            lambda: {n: s.sizes() for n, s in explore.splitters().items()} == before, timeout=2000
        )
        assert explore.pictures.indexOf(explore.grid_panel) == 0
    assert side_of_map(window) == side


@pytest.mark.parametrize("n_words", [1, 6, 13, 30])
def test_that_large_type_takes_no_room_from_the_map_of_a_sentence_of_any_length(
    qtbot: QtBot, n_words: int
) -> None:
    desk = Desk().open()
    words = " ".join(["a", "bought", "small", "village"][k % 4] for k in range(n_words))
    desk.session.texts.set_text(words)
    desk.session.texts.set_target(words)
    desk.answer()
    sides = []
    for theme in ("light", "projector"):
        made = MainWindow(states_of(desk.session), Settings(theme=theme))
        qtbot.addWidget(made)
        made.resize(1280, 800)
        made.show()
        explore = made.pages.explore
        qtbot.waitUntil(lambda page=explore: page.pictures.isVisible(), timeout=2000)
        qtbot.wait(20)
        sides.append(side_of_map(made))
    assert sides[1] >= sides[0]
    heading = explore.head_panel.heading
    assert heading.geometry().height() == heading.sizeHint().height()  # all of it in one line
    strip = explore.text_bar.source_strip
    assert strip.visibleRegion().boundingRect().height() <= round(type_px(ROW_PX))


def test_that_in_large_type_the_place_and_changes_of_a_head_stand_beside_its_name(
    qtbot: QtBot, window: MainWindow
) -> None:
    inspector = window.pages.explore.inspector

    def are_beside() -> bool:
        middle = inspector.name.geometry().center().y()
        return all(abs(part.geometry().center().y() - middle) <= 8 for part in beside)

    beside = (inspector.place, inspector.changes)
    window.view.set_theme("projector")
    qtbot.waitUntil(are_beside, timeout=2000)
    needed = sum(part.height() for part in (inspector.name, inspector.line, inspector.gate))
    assert inspector.minimumHeight() < needed + 32  # what is left is the grid's
    window.view.set_theme("light")
    qtbot.waitUntil(lambda: inspector.changes.y() > inspector.gate.y(), timeout=2000)
    assert inspector.place.y() > inspector.name.geometry().bottom()


def test_that_a_window_of_a_larger_screen_opens_within_this_one() -> None:
    screen = QRect(0, 0, 1280, 800)
    assert usable_geometry((0, 0, 1910, 1050), [screen]) == screen
    assert usable_geometry((200, 100, 1200, 900), [screen]) == QRect(80, 0, 1200, 800)
    assert usable_geometry((200, 100, 1200, 700), [screen]) == QRect(200, 100, 1200, 700)
    both = [screen, QRect(1280, 0, 1920, 1080)]
    assert usable_geometry((0, 0, 2400, 800), both) == QRect(0, 0, 2400, 800)


def test_that_a_window_mostly_on_a_screen_that_is_gone_is_moved_onto_this_one() -> None:
    screen = QRect(0, 0, 1280, 800)
    both = [screen, QRect(1280, 0, 1280, 800)]
    assert usable_geometry((1000, 100, 1280, 690), both) == QRect(1000, 100, 1280, 690)
    assert usable_geometry((1000, 100, 1280, 690), [screen]) == QRect(0, 100, 1280, 690)
    assert usable_geometry((10, 700, 1200, 750), [screen]) == QRect(10, 50, 1200, 750)


def test_that_a_window_that_is_made_to_fit_leaves_room_for_its_title(qtbot: QtBot) -> None:
    for kept in ((0, 0, 1910, 1050), (0, 0, 3000, 2000)):
        made = MainWindow(states_of(Desk().open().session), Settings(geometry=kept))
        qtbot.addWidget(made)
        room = made.screen().availableGeometry()
        assert made.geometry().bottom() <= room.bottom()
        assert made.y() >= room.y() + made.style().pixelMetric(QStyle.PixelMetric.PM_TitleBarHeight)


def test_that_a_window_that_grows_in_large_type_shares_its_room_as_at_first(qtbot: QtBot) -> None:
    made = MainWindow(states_of(Desk().open().session), Settings(theme="projector"))
    qtbot.addWidget(made)
    made.resize(1280, 800)
    made.show()
    explore = made.pages.explore
    qtbot.waitUntil(lambda: explore.grid_panel.parentWidget() is explore.side, timeout=2000)
    made.resize(2560, 1440)
    qtbot.waitUntil(lambda: explore.grid_panel.parentWidget() is explore.pictures, timeout=2000)
    qtbot.waitUntil(lambda: explore.pictures.sizes()[1] > 1.2 * explore.pictures.sizes()[0], timeout=2000)
    assert explore.columns.sizes()[0] > 4 * explore.columns.sizes()[1]
    made.resize(1280, 800)
    made.view.set_theme("light")
    qtbot.waitUntil(lambda: explore.columns.sizes()[1] == 280, timeout=2000)


@pytest.mark.parametrize("factor", [1.0, 1.35, 2.0])
def test_that_no_name_of_a_measure_is_cut(qtbot: QtBot, factor: float) -> None:
    with type_at(factor):
        face = QFontMetricsF(font(NORMAL_PX))
        assert all(face.horizontalAdvance(kind.name) <= names_px() for kind in MEASURES)


@pytest.mark.parametrize("theme", ["light", "projector"])
def test_that_all_type_follows_the_window_while_presenting(qtbot: QtBot, theme: str) -> None:
    window = MainWindow(states_of(Desk().open().session), Settings(theme=theme))
    qtbot.addWidget(window)
    window.resize(1280, 800)
    window.show()
    output, grid = window.pages.explore.output, window.pages.explore.grid_panel.grid
    before = output.fontInfo().pixelSize(), type_px(1.0), grid.layout_now().area.left()
    window.actions_by_name["present"].trigger()
    for size in ((1280, 800), (1920, 1080)):
        window.resize(*size)
        qtbot.waitUntil(lambda wanted=size: (window.width(), window.height()) == wanted, timeout=2000)
        assert SMALL_PX * type_px(1.0) >= 0.025 * size[1]
        assert output.fontInfo().pixelSize() == round(NORMAL_PX * type_px(1.0))
        assert grid.layout_now().area.left() >= ROW_HEADER_PX * type_px(1.0)
    window.actions_by_name["dismiss"].trigger()
    assert (output.fontInfo().pixelSize(), type_px(1.0), grid.layout_now().area.left()) == before


@pytest.mark.parametrize("tab", ["Layers", "Across", "Causes", "Ask"])
def test_that_in_large_type_tables_and_pictures_of_the_model_take_the_place_of_the_head(
    qtbot: QtBot, tab: str
) -> None:
    made = MainWindow(states_of(Desk().open().session), Settings(theme="projector"))
    qtbot.addWidget(made)
    made.resize(1280, 800)
    made.show()
    explore = made.pages.explore
    qtbot.waitUntil(lambda: explore.grid_panel.parentWidget() is explore.side, timeout=2000)
    explore.answers.show_panel(tab)
    qtbot.waitUntil(lambda: explore.answers.width() > explore.width() / 2, timeout=2000)
    assert explore.answers.height() > 0.8 * explore.height()
    assert not explore.head_panel.isVisible()
    explore.answers.show_panel("Output")
    qtbot.waitUntil(explore.head_panel.isVisible, timeout=2000)
    explore.answers.show_panel(tab)
    made.view.set_theme("light")
    qtbot.waitUntil(lambda: explore.head_panel.isVisible() == (tab != "Ask"), timeout=2000)


def test_that_a_head_step_by_step_is_read_from_the_back_of_a_room_too(qtbot: QtBot) -> None:
    desk, asked = Desk().open(), []
    window = MainWindow(states_of(desk.session, worker=asked.append), Settings(theme="light"))
    qtbot.addWidget(window)
    window.resize(1280, 800)
    window.show()
    panel = window.pages.explore.head_panel.inside
    window.view.show_view("inside")
    qtbot.waitUntil(lambda: any(isinstance(one, ShowInside) for one in asked), timeout=2000)
    number = next(one.number for one in reversed(asked) if isinstance(one, ShowInside))
    panel.state.handle(InsideShown(number=number, inside=inside(n=6)))
    before = panel.picture.layout_now()
    window.actions_by_name["present"].trigger()
    stage = panel.picture.layout_now()
    assert stage.rows.step >= 0.025 * window.height() * 16 / SMALL_PX  # 16 px for type of 11
    assert stage.title.height() > 1.5 * before.title.height()
    assert stage.columns[-1].right <= panel.picture.width()
    window.actions_by_name["dismiss"].trigger()
    assert panel.picture.layout_now().title.height() == before.title.height()


def test_that_who_turns_to_explore_while_presenting_has_the_keys_of_the_grid(window: MainWindow) -> None:
    window.view.show_page("labs")
    window.actions_by_name["present"].trigger()
    window.view.show_page("explore")
    assert window.pages.explore.focusWidget() is window.pages.explore.grid_panel.grid


def test_that_the_buttons_of_train_are_whole_where_presenting_begins_there(
    qtbot: QtBot, window: MainWindow
) -> None:
    window.actions_by_name["page-train"].trigger()
    qtbot.wait(20)
    window.actions_by_name["present"].trigger()
    qtbot.wait(20)
    buttons = [button for button in window.findChildren(QPushButton) if button.isVisible()]
    (opening,) = (button for button in buttons if button.text() == "Open…")
    assert opening.width() >= opening.minimumSizeHint().width()
