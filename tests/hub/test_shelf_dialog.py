"""The shelf in the window, driven without a thread against a server on this computer."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hub_server import Hub, drop_after, page, status
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget
from session_samples import state_of

from attnscope.hub.shelf import part_paths, whole_snapshot
from attnscope.records import (
    AskModel,
    Failed,
    FetchModel,
    ModelOffered,
    ShelfRow,
    ShelfShown,
    ShowShelf,
    typed_name,
    unlisted,
)
from attnscope.viewmodels import WorkState, watch_downloads
from attnscope.widgets.window import COLUMNS, ShelfDialog
from attnscope.workers import FetchDesk

pytestmark = pytest.mark.qt
NAME, WEIGHTS = "someone/tiny", "model.safetensors"
GPT2 = "openai-community/gpt2"


class Bench:
    """A state with a desk behind it that works when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0
        self.desk = FetchDesk(self.clock)
        self.posted: list[object] = []
        self.state = state_of("shelf", self.post)

    def clock(self) -> float:
        self.now += 0.1
        return self.now

    def post(self, request: object) -> None:
        self.posted.append(request)
        self.desk.take(request)

    def work(self, until: Callable[[], bool] = lambda: False) -> None:
        """Let the desk work to its end, or until something is so."""
        for _ in range(2000):
            if self.desk.wait_s is None or until():
                return
            for reply in self.desk.step():
                self.state.handle(reply)
        raise AssertionError("it never ends")


@pytest.fixture
def bench(hub: Hub) -> Bench:
    hub.models[GPT2] = hub.models[NAME]
    return Bench()


@pytest.fixture
def dialog(bench: Bench, qtbot) -> ShelfDialog:
    bench.state.show()
    bench.work()
    shown = ShelfDialog(bench.state)
    qtbot.addWidget(shown)
    shown.show()
    return shown


def cells(dialog: ShelfDialog, row: int) -> list[str]:
    model = dialog.table.model()
    return [model.index(row, column).data() for column in range(len(COLUMNS))]


def test_that_the_list_names_model_size_licence_and_state(dialog: ShelfDialog, hub: Hub) -> None:
    header = dialog.table.model().headerData
    assert [header(k, Qt.Orientation.Horizontal) for k in range(len(COLUMNS))] == list(COLUMNS)
    name, words, size, licence, state = cells(dialog, 0)
    assert (name, size, licence, state) == ("GPT-2 small", "about 550 MB", "MIT", "")
    assert words.startswith("The most studied language model.")
    assert dialog.facts.full_text() == f"{GPT2} · next token · 124 million parameters · licence MIT"
    assert dialog.main_button.text() == f"Ask {hub.host}…"
    assert hub.asked == [], "looking at the list asks nobody"


def test_that_two_clicks_download_and_a_third_opens(
    dialog: ShelfDialog, bench: Bench, hub: Hub, qtbot
) -> None:
    dialog.main_button.click()
    assert not dialog.main_button.isEnabled()
    assert dialog.told.text() == f"Asking {hub.host}…"
    bench.work()
    assert [path for path, _ in hub.asked] == [f"/api/models/{GPT2}/revision/main"]
    assert dialog.main_button.text() == f"Download 512,143 bytes from {hub.host} (licence MIT)"
    assert dialog.told.text() == f"{hub.host} has 512,143 bytes in 4 files."
    assert "model.safetensors" in dialog.files.full_text()
    dialog.main_button.click()
    bench.work(lambda: bench.state.job.news is not None)
    assert dialog.pause_button.isVisible()
    assert dialog.progress.full_text().startswith("gpt2: ")
    bench.work()
    assert not dialog.pause_button.isVisible()
    assert (dialog.main_button.text(), cells(dialog, 0)[4]) == ("Open", "On this computer")
    assert cells(dialog, 0)[2] == "512 kB"
    with qtbot.waitSignal(dialog.open_wanted) as opened:
        dialog.main_button.click()
    assert opened.args == [GPT2]
    assert dialog.isHidden()
    assert whole_snapshot(GPT2) is not None


def test_that_a_download_pauses_resumes_and_is_removed(dialog: ShelfDialog, bench: Bench, hub: Hub) -> None:
    dialog.main_button.click()
    bench.work()
    dialog.main_button.click()
    bench.work(lambda: bench.state.job.news is not None and bench.state.job.news.step.n_done > 100_000)
    dialog.pause_button.click()
    assert dialog.progress.full_text() == "gpt2: Stopping…"
    bench.work()
    n_kept = sum(path.stat().st_size for path in part_paths(GPT2))
    assert 100_000 < n_kept < 512_143
    assert cells(dialog, 0)[4].startswith("Begun, ")
    assert dialog.progress.full_text().startswith(f"Paused: {n_kept:,} bytes are kept")
    words = f"Download the remaining {512_143 - n_kept:,} bytes from {hub.host} (licence MIT)"
    assert dialog.main_button.text() == words
    dialog.main_button.click()
    bench.work(lambda: bench.state.job.news is not None and bench.state.job.news.step.n_done > n_kept)
    dialog.cancel_button.click()
    bench.work()
    assert part_paths(GPT2) == []
    assert cells(dialog, 0)[4] == ""
    assert not dialog.cancel_button.isVisible()
    assert dialog.main_button.text().startswith("Download 512,143 bytes")


def test_that_what_an_earlier_start_left_is_shown_and_can_be_removed(bench: Bench, hub: Hub, qtbot) -> None:
    bench.state.show(GPT2)
    bench.work()
    for act in (bench.state.ask, bench.state.download):
        act()
        bench.work(lambda: bench.state.job.news is not None and bench.state.job.news.step.n_done > 100_000)
    bench.state.pause()
    bench.work()
    later = Bench()
    later.state.show()
    later.work()
    dialog = ShelfDialog(later.state)
    qtbot.addWidget(dialog)
    dialog.show()
    assert later.state.chosen == GPT2, "what was begun stands before what is not here"
    assert dialog.main_button.text() == f"Ask {hub.host}…"
    assert "bytes of it are here" in dialog.told.text()
    assert dialog.cancel_button.text() == "Delete what has arrived"
    dialog.cancel_button.click()
    later.work()
    assert part_paths(GPT2) == []


def test_that_a_name_that_is_on_no_list_can_be_typed(dialog: ShelfDialog, bench: Bench, hub: Hub) -> None:
    QTest.keyClicks(dialog.filter, NAME)
    assert cells(dialog, 0) == [NAME, "", "", "", ""]
    QTest.keyClick(dialog.filter, Qt.Key.Key_Return)
    bench.work()
    assert dialog.main_button.text() == f"Download 512,143 bytes from {hub.host} (licence mit)"
    QTest.keyClick(dialog.filter, Qt.Key.Key_Return)
    bench.work()
    assert dialog.main_button.text() == "Open"
    dialog.filter.clear()
    assert cells(dialog, 0)[0] == NAME, "it stands first from now on"


@pytest.mark.parametrize("typed", [f"hf:{GPT2}", f" https://hub.example/{GPT2}/tree/main ", GPT2])
def test_that_a_prefix_or_the_address_of_a_page_names_the_model(bench: Bench, typed: str) -> None:
    bench.state.show()
    bench.work()
    bench.state.look_for(typed)
    assert [row.entry.name for row in bench.state.rows] == [GPT2]
    bench.state.look_for(typed.replace("openai-community", "someone"))
    assert [row.entry.name for row in bench.state.rows] == ["someone/gpt2"]


def test_that_words_find_models_and_what_fits_nothing_says_so(dialog: ShelfDialog, bench: Bench) -> None:
    QTest.keyClicks(dialog.filter, "german translation")
    assert [row.entry.title for row in bench.state.rows] == ["OPUS-MT English to German"]
    assert dialog.title.full_text() == "OPUS-MT English to German"
    dialog.filter.clear()
    QTest.keyClicks(dialog.filter, "xyzzy")
    assert bench.state.rows == ()
    assert dialog.told.text().startswith("No matches.")
    assert not dialog.main_button.isEnabled()


def test_that_keys_reach_the_list_and_enter_does_what_the_button_says(
    dialog: ShelfDialog, bench: Bench
) -> None:
    dialog.filter.setFocus()
    QTest.keyClick(dialog.filter, Qt.Key.Key_Down)
    QTest.keyClick(dialog.table, Qt.Key.Key_Down)
    assert bench.state.chosen == "distilbert/distilgpt2"
    QTest.keyClick(dialog.table, Qt.Key.Key_Return)
    assert [type(request) for request in bench.posted] == [ShowShelf, AskModel]


@pytest.mark.parametrize(
    ("fault", "told"),
    [(status(404), "no public model"), (page, "a web page"), (status(429), "wait 60 s")],
)
def test_that_what_goes_wrong_is_told_in_its_place(
    dialog: ShelfDialog, bench: Bench, hub: Hub, fault, told: str
) -> None:
    hub.faults["/api/"] = [fault]
    dialog.main_button.click()
    bench.work()
    assert told in dialog.told.text()
    assert dialog.told.property("role") == "error"
    assert dialog.main_button.isEnabled()
    dialog.table.selectRow(1)
    assert dialog.told.property("role") == "", "the sentence belongs to the model it is about"
    dialog.table.selectRow(0)
    dialog.main_button.click()
    bench.work()
    assert dialog.told.property("role") == ""


def test_that_a_download_that_fails_can_go_on(dialog: ShelfDialog, bench: Bench, hub: Hub) -> None:
    hub.faults[WEIGHTS] = [drop_after(1000), status(403)]
    dialog.main_button.click()
    bench.work()
    dialog.main_button.click()
    bench.work()
    assert "accepted its terms" in dialog.told.text()
    assert dialog.main_button.text().startswith("Download the remaining ")
    dialog.main_button.click()
    bench.work()
    assert dialog.main_button.text() == "Open"


def test_that_another_model_waits_while_one_is_downloaded(
    dialog: ShelfDialog, bench: Bench, hub: Hub
) -> None:
    hub.models["distilbert/distilgpt2"] = hub.models[NAME]
    dialog.main_button.click()
    bench.work()
    dialog.main_button.click()
    bench.work(lambda: bench.state.job.news is not None)
    dialog.table.selectRow(1)
    dialog.main_button.click()
    bench.work(lambda: bench.state.offer is not None)
    assert bench.state.step == "busy"
    assert not dialog.main_button.isEnabled()
    assert dialog.told.text() == f"{GPT2} is being downloaded: pause or cancel it first."
    bench.work()
    assert bench.state.step == "download"


def test_that_the_download_stands_in_the_list_of_work_where_stop_is_a_pause(bench: Bench) -> None:
    work = WorkState()
    watch_downloads(work, bench.state)
    bench.state.show(GPT2)
    bench.work()
    bench.state.ask()
    bench.work()
    bench.state.download()
    bench.work(lambda: bench.state.job.news is not None and bench.state.job.news.step.n_done > 100_000)
    (job,) = work.jobs
    assert job.name == "Downloading gpt2"
    assert 0.0 < job.fraction < 1.0
    work.stop("Downloading gpt2")
    bench.work()
    assert work.jobs == ()
    assert part_paths(GPT2)


def test_that_an_answer_stays_with_the_model_it_is_about(dialog: ShelfDialog, bench: Bench, hub: Hub) -> None:
    dialog.main_button.click()
    dialog.table.selectRow(1)
    dialog.main_button.click()
    bench.work()
    assert "no public model" in bench.state.problem
    dialog.table.selectRow(0)
    assert bench.state.problem == ""
    assert bench.state.step == "download"
    bench.state.handle(ModelOffered(number=999, offer=replace(bench.state.offer, name="old/one")))
    bench.state.choose("old/one")
    assert bench.state.offer is None, "nobody asked"


def test_that_a_fault_of_the_program_ends_what_was_asked(dialog: ShelfDialog, bench: Bench) -> None:
    dialog.main_button.click()
    bench.state.handle(Failed(number=0, request="shelf", message="a fault", crash_log="log"))
    assert dialog.told.text() == "a fault"
    assert bench.state.step == "ask"


def test_that_hostile_names_are_shown_letter_by_letter(dialog: ShelfDialog, bench: Bench) -> None:
    evil = "<b>x</b>/\u202e\x1b"
    row = ShelfRow(entry=unlisted(evil), place="cache", source=evil, n_bytes=1)
    bench.state.handle(ShelfShown(number=1, rows=(row,), host="h<i>"))
    assert "\u202e" not in dialog.title.full_text()
    assert "\x1b" not in cells(dialog, 0)[0]
    assert dialog.title.textFormat() == Qt.TextFormat.PlainText


def test_that_nothing_is_downloaded_without_an_offer(bench: Bench) -> None:
    bench.state.show(GPT2)
    bench.work()
    bench.state.download()
    bench.state.pause()
    bench.state.cancel()
    assert not any(isinstance(request, FetchModel) for request in bench.posted)
    assert len(bench.posted) == 1


def test_that_it_fits_into_the_window_it_belongs_to(bench: Bench, qtbot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    window.resize(900, 560)
    dialog = ShelfDialog(bench.state, window)
    assert dialog.width() < 900
    assert dialog.height() < 560


def test_that_a_package_says_that_it_carries_the_model(bench: Bench, qtbot) -> None:
    entry = unlisted("a/b")
    state = bench.state
    state.handle(ShelfShown(number=1, rows=(ShelfRow(entry=entry, place="package", source="a/b"),), host=""))
    dialog = ShelfDialog(state)
    qtbot.addWidget(dialog)
    assert "contains it" in dialog.told.text()
    assert dialog.main_button.text() == "Open"
    assert cells(dialog, 0)[-1] == "Installed"


@pytest.mark.parametrize(
    "end", ["", "/", "/tree/main", "?library=transformers", "/blob/main/a.json?x=1#L3", "#a"]
)
def test_that_an_address_copied_from_a_browser_is_the_name_of_its_model(end):
    assert typed_name(f" https://huggingface.co/someone/tiny{end} ") == NAME
