"""Nothing that goes wrong is lost: it is in a log, and told in one sentence."""

import gc
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from psygnal import EmitLoopError, Signal, SignalGroup

from attnscope.crash import CrashLog, fault_sentence, install_hooks, remove_hooks

CHECKOUT = Path(__file__).parents[2]


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001
        return caught


@pytest.fixture
def told(tmp_path: Path) -> Iterator[list[str]]:
    sentences: list[str] = []
    install_hooks(CrashLog(tmp_path), sentences.append)
    yield sentences
    remove_hooks()


def test_that_a_log_holds_the_traceback_and_what_was_being_done(tmp_path: Path) -> None:
    path = CrashLog(tmp_path / "logs").write(raised(KeyError("weights\x1b[31m")), "tracing a text")
    assert path is not None
    text = path.read_text()
    assert "While: tracing a text" in text
    assert "KeyError" in text
    assert "test_shell_crash.py" in text


def test_that_a_disk_that_refuses_the_log_raises_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    error = raised(ValueError("no"))
    path = CrashLog(tmp_path / "file").write(error, "anything")
    assert path is None
    assert "could not be written" in fault_sentence(error, path)


def test_that_lone_surrogates_do_not_break_the_log(tmp_path: Path) -> None:
    assert CrashLog(tmp_path).write(raised(ValueError("a\ud800b")), "c\udfffd") is not None


def test_that_only_the_newest_logs_are_kept(tmp_path: Path) -> None:
    log = CrashLog(tmp_path)
    error = raised(ValueError("no"))
    for _ in range(30):
        log.write(error, "anything")
    assert len(list(tmp_path.glob("crash-*.log"))) == 20


def test_that_a_sentence_about_a_fault_is_one_line() -> None:
    sentence = fault_sentence(ValueError("one\ntwo\n" + "x" * 1000), Path("a.log"))
    assert "\n" not in sentence
    assert len(sentence) < 300


def test_that_what_fails_in_a_reaction_to_a_signal_is_told_and_the_signal_is_in_the_log(
    tmp_path: Path,
) -> None:
    class Changes(SignalGroup):
        text = Signal()
        traced = Signal()

    changed = Changes()
    changed.text.connect(lambda: changed.traced.emit())
    changed.traced.connect(lambda: {}["weights"])
    with pytest.raises(EmitLoopError) as caught:
        changed.text.emit()
    assert fault_sentence(caught.value, None).startswith("A fault in AttnScope (KeyError: 'weights').")
    log = CrashLog(tmp_path).write(caught.value, "anything")
    assert log is not None
    assert "traced" in log.read_text()


def test_that_an_uncaught_error_is_logged_and_told(told: list[str], tmp_path: Path) -> None:
    error = raised(ValueError("slot went wrong"))
    sys.excepthook(type(error), error, error.__traceback__)
    assert "slot went wrong" in told[0]
    assert len(list(tmp_path.glob("crash-*.log"))) == 1


def test_that_an_error_in_a_thread_is_logged_and_told(told: list[str], tmp_path: Path) -> None:
    def fail() -> None:
        raise RuntimeError("thread went wrong")

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    assert "thread went wrong" in told[0]
    assert len(list(tmp_path.glob("crash-*.log"))) == 1


def test_that_an_error_in_a_clean_up_is_logged_and_told(told: list[str]) -> None:
    class Bad:
        def __del__(self) -> None:
            raise RuntimeError("clean-up went wrong")

    Bad()
    gc.collect()
    assert "clean-up went wrong" in told[0]


def test_that_a_process_that_died_is_told_once_at_the_next_start(tmp_path: Path) -> None:
    code = (
        "import sys, ctypes; from pathlib import Path; from attnscope.crash import CrashLog\n"
        "CrashLog(Path(sys.argv[1])).watch_process(); ctypes.string_at(0)"
    )
    died = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=CHECKOUT, check=False)
    assert died.returncode != 0
    first, second = CrashLog(tmp_path), CrashLog(tmp_path)
    found = first.watch_process()
    first.close()
    assert found is not None
    assert "Fatal Python error" in found.read_text()
    assert second.watch_process() is None
    second.close()
    assert not list(tmp_path.glob("fatal-*.log"))
