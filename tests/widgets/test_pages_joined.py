"""What one page of the window says reaches what another does."""

import pytest
from session_samples import Desk, states_of

from attnscope.figures import DARK
from attnscope.settings import Settings
from attnscope.widgets import apply_theme, theme_of
from attnscope.widgets.window import MainWindow

pytestmark = pytest.mark.qt


def test_that_what_a_page_wants_and_says_is_heard(qtbot, monkeypatch) -> None:
    desk = Desk().open()
    window = MainWindow(states_of(desk.session), Settings(theme="light"))
    qtbot.addWidget(window)
    pages, view, heard = window.pages, window.view, []
    for name in ("export", "remove-heads", "page-explore"):
        action = window.actions_by_name[name]
        action.triggered.disconnect()
        action.setEnabled(True)
        action.triggered.connect(lambda _=False, name=name: heard.append(name))
    pages.failed.connect(lambda subject, why: heard.append((subject, why)))
    wanted = (
        (pages.labs.export_wanted, "export"),
        (pages.heads_tabs.remove_wanted, "remove-heads"),
        (pages.heads.explore_wanted, "page-explore"),
        (pages.heads_tabs.explore_wanted, "page-explore"),
    )
    for signal, name in wanted:
        heard.clear()
        signal.emit()
        assert heard == [name]
    for page in (pages.heads, pages.heads_tabs, pages.training):
        heard.clear()
        page.failed.emit("it", "why")
        assert heard == [("it", "why")]
    for page in (pages.compare, pages.positions, pages.training, pages.labs):
        page.hover_text.emit(type(page).__name__)
        assert view.pointer_text == type(page).__name__
    view.show_page("positions")
    pages.positions.lab_wanted.emit("Past the trained length")
    assert view.page == "labs"
    pages.labs.page_wanted.emit("heads")
    assert view.page == "heads"
    pages.labs.page_wanted.emit("nowhere")
    assert view.page == "heads"
    heard.clear()
    own = (pages.explore, pages.compare, pages.heads_tabs, pages.training, pages.labs)
    apply_theme(pages.window(), DARK)
    assert all(theme_of(page) == DARK for page in own)
    monkeypatch.setattr(pages.training, "set_style", heard.append)
    view.set_colour_map("magma")
    assert [style.colour_map for style in heard] == ["magma"]
