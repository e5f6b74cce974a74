"""One life of the window: settings, crash log, hooks, event loop, and shutdown.

`attnscope --smoke` tells, offscreen, whether the installed program works: a checkout, a wheel or a bundle.
"""

import collections
import dataclasses
import gc
import json
import signal
import socket
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TextIO

from PySide6.QtCore import (
    QMessageLogContext,
    QObject,
    QSocketNotifier,
    QTimer,
    QtMsgType,
    Slot,
    qInstallMessageHandler,
)
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QApplication

from attnscope import paths
from attnscope.app import Application, Program, make_application
from attnscope.crash import CrashLog, fault_sentence, install_hooks, remove_hooks
from attnscope.errors import UserError
from attnscope.figures.style import plain_text
from attnscope.one_window import Door
from attnscope.settings import Remembered, Settings, StartOptions, read_settings, reset_settings

# What reaches the program from outside Python: messages of Qt, and the signals to stop.


_N_KEPT = 50


class QtFault(Exception):
    """A critical message of Qt, as an error for a crash log."""


class QtMessages:
    """Keeps the last messages of Qt; a critical one goes to a crash log and is reported."""

    def __init__(self, log: CrashLog, tell: Callable[[str], None]) -> None:
        self._log = log
        self._tell = tell
        self.recent: collections.deque[str] = collections.deque(maxlen=_N_KEPT)

    def install(self) -> None:
        """Handle Qt's messages from now on."""
        qInstallMessageHandler(self.take)

    def remove(self) -> None:
        """Restore Qt's own handler."""
        qInstallMessageHandler(None)

    def take(self, kind: QtMsgType, context: QMessageLogContext, message: str) -> None:
        """Handle one message of Qt, on any thread."""
        self.recent.append(message)
        if kind in (QtMsgType.QtCriticalMsg, QtMsgType.QtFatalMsg):
            fault = QtFault(message)
            path = self._log.write(fault, "Qt:\n" + "\n".join(self.recent))
            self._tell(fault_sentence(fault, path))


class StopSignals(QObject):
    """Turns SIGTERM, SIGINT and SIGHUP into a call on the window's thread; a second one exits.

    Python looks at signals only between its own instructions, so a socket wakes Qt's event loop.
    """

    def __init__(self, stop: Callable[[], None], end_now: Callable[[int], object], parent: QObject) -> None:
        super().__init__(parent)
        self._stop = stop
        self._end_now = end_now
        self._n_seen = 0
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._notifier = QSocketNotifier(self._reader.fileno(), QSocketNotifier.Type.Read, self)
        self._notifier.activated.connect(self._on_woken)
        self._old_wakeup = -1
        self._old_handlers: dict[int, object] = {}

    def install(self) -> None:
        """Handle the signals from now on; only on the main thread."""
        self._old_wakeup = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        names = ("SIGINT", "SIGTERM", "SIGHUP") if sys.platform != "win32" else ("SIGINT", "SIGTERM")
        for name in names:
            number = getattr(signal, name)
            self._old_handlers[number] = signal.signal(number, self._on_signal)

    def remove(self) -> None:
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._old_handlers.clear()
        signal.set_wakeup_fd(self._old_wakeup)
        self._notifier.setEnabled(False)
        self._reader.close()
        self._writer.close()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._n_seen += 1
        if self._n_seen == 1:
            self._stop()
        else:
            self._end_now(128 + number)

    @Slot()
    def _on_woken(self) -> None:
        """Empty the socket; the call itself has let Python run the handler."""
        try:
            self._reader.recv(64)
        except OSError:
            return


def run_window(
    options: StartOptions, *, started_s: float, end_now: Callable[[int], object], door: str = ""
) -> int:
    """Open the window and wait until it is closed; returns the exit code.

    Later starts hand their files over at `door`, where it has a name.

    `end_now` ends the process at once: after it nothing runs, so it is called only with everything
    saved, or when a second signal insists. Raises UserError when the settings cannot be reset, or when there
    is no font to write with.
    """
    application = make_application()
    check_fonts(application)
    log = CrashLog(paths.logs_folder())
    died = log.watch_process()
    remembered = choose_settings(options)
    program = Program(
        settings=remembered.settings,
        crash_log=log,
        options=options,
        is_remembering=not (options.is_safe_mode or options.is_unattended),
        is_measuring=not options.is_smoke,
    )
    install_hooks(log, program.tell_fault)
    messages = QtMessages(log, program.tell_fault)
    messages.install()
    signals = StopSignals(program.close, end_now, program)
    signals.install()
    smoke = Smoke(program) if options.is_smoke else None
    handout = HandoutMaker(program, Path(options.handout)) if options.handout else None
    program.ended.connect(application.quit)
    program.show()
    listen(program, application, door)
    tell_at_start(program, remembered.warning, died)
    gc.freeze()  # what a start makes stays: the collector need not walk it
    application.exec()
    program.end()
    signals.remove()
    messages.remove()
    remove_hooks()
    log.close()
    if smoke is not None:
        return report_smoke(smoke, program.milestones, started_s, is_json=options.is_json)
    return handout.report() if handout is not None else 0


def check_fonts(application: QApplication) -> None:
    """Raise UserError if no font is installed: every letter of the window would be an empty box.

    Qt then still lists three families, of which none has a letter.
    """
    if not QFontMetrics(application.font()).inFontUcs4(ord("A")):
        raise UserError(
            "No fonts are installed, so nothing in the window could be read.",
            action="Install one (Debian, Ubuntu: apt install fonts-dejavu-core; Fedora: dnf install "
            "dejavu-sans-fonts), then start AttnScope again.",
        )


def listen(program: Program, application: QApplication, door: str) -> None:
    """Open files handed over by later starts and the desktop."""
    if isinstance(application, Application):
        application.file_wanted.connect(program.take_source)
    if door:
        listening = Door(door, program)
        listening.wanted.connect(program.take_source)
        program.ended.connect(listening.close)


def choose_settings(options: StartOptions) -> Remembered:
    """The settings to start with; raises UserError if a requested reset is impossible."""
    if options.is_reset:
        reset_settings(paths.settings_folder())
    if options.is_safe_mode or options.is_unattended:
        remembered = Remembered(settings=Settings())
    else:
        remembered = read_settings(paths.settings_folder())
    if options.device:
        chosen = dataclasses.replace(remembered.settings, device=options.device)
        remembered = dataclasses.replace(remembered, settings=chosen)
    return remembered


def tell_at_start(program: Program, warning: str, died: Path | None) -> None:
    """Show messages about the last session; the most important one last."""
    if died is not None:
        action = "restore-session" if program.window.workspace.autosave.is_on else ""
        message = f"AttnScope ended unexpectedly last time. Its log is {died}."
        program.session.notices.say(message, action=action)
    if warning:
        program.session.notices.say(warning)


def report_smoke(smoke: "Smoke", milestones: dict[str, float], started_s: float, *, is_json: bool) -> int:
    """Print the result of the smoke test, in one line; returns the exit code."""
    if is_json:
        times = {f"{name}_s": round(at - started_s, 4) for name, at in milestones.items()}
        line = json.dumps(
            {"ok": smoke.code == 0, "sentence": smoke.sentence, "started_at_s": started_s, **times}
        )
    else:
        judged = "ok" if smoke.code == 0 else "FAILED"
        line = f"attnscope smoke: {judged}, {smoke.sentence}"
    write_line(line, sys.stdout if smoke.code == 0 or is_json else sys.stderr)
    return smoke.code


def write_line(text: str, stream: TextIO) -> None:
    """Write one line of plain text, with escapes for what the stream's encoding lacks."""
    encoding = stream.encoding or "utf-8"
    line = plain_text(" ".join(text.split()))
    stream.write(line.encode(encoding, errors="backslashreplace").decode(encoding) + "\n")


WITHIN_S = 60.0
_MIN_BYTES = 2_000
_ROOM = 70
"""On one line of a terminal, for how far a handout is."""


class Smoke(QObject):
    """Watches a program until it has shown a trace; `code` is then 0, and `sentence` describes it."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.code = 1
        self.sentence = f"nothing was traced within {WITHIN_S:.0f} s"
        self._program = program
        told = program.session.changed
        told.ready.connect(self._on_ready)
        told.notice.connect(self._on_notice)
        told.traced.connect(self._on_traced)
        self._deadline = QTimer(self, interval=int(WITHIN_S * 1000), singleShot=True)
        self._deadline.timeout.connect(program.close)
        self._deadline.start()

    def _on_ready(self) -> None:
        if not self._program.session.demo_models:
            self.sentence = "there is no demo model"

    def _on_notice(self) -> None:
        notice = self._program.session.notices.shown
        if notice is not None and notice.is_error:
            self._finish(f"the window said: {notice.message}")

    def _on_traced(self) -> None:
        session = self._program.session
        if session.traced is not None and not session.tracing.is_stale:
            QTimer.singleShot(0, self, self._check)

    @Slot()
    def _check(self) -> None:
        """Export the figure shown, and check it and the trace."""
        traced = self._program.session.traced
        if traced is None or not self._deadline.isActive():
            return
        if not traced.check.is_good:
            self._finish(f"the trace is wrong: {traced.check.sentence}")
            return
        try:
            with tempfile.TemporaryDirectory(prefix="attnscope-smoke-", ignore_cleanup_errors=True) as folder:
                path = Path(folder) / "figure.svg"
                self._program.window.export_current(path)
                n_bytes = check_svg(path)
        except (UserError, OSError, ValueError) as error:
            self._finish(f"the figure is wrong: {error}")
            return
        name = self._program.session.model.name if self._program.session.model else "model"
        n_heads = sum(len(grid.peaks) for grid in traced.grids)
        self._finish(
            f"{name} traced '{traced.text}' ({n_heads} heads, {traced.check.sentence}); "
            f"figure of {n_bytes:,} bytes",
            code=0,
        )

    def _finish(self, sentence: str, *, code: int = 1) -> None:
        if self._deadline.isActive():
            self._deadline.stop()
            self.code, self.sentence = code, sentence
            QTimer.singleShot(0, self._program, self._program.close)


class HandoutMaker(QObject):
    """Makes a program open a session, write its handout, and close.

    `code` is 0 with a handout, 2 where the session or the file cannot be opened, 1 after a fault.
    """

    def __init__(self, program: Program, path: Path) -> None:
        super().__init__(program)
        self._program, self._path, self._notices = program, path, program.session.notices
        self._kept = program.window.workspace.files.kept
        self._kept.changed.views.connect(self._on_views)
        self._kept.changed.going.connect(self._on_going)
        program.session.changed.notice.connect(self._on_notice)
        program.window.handout.ended.connect(self._on_ended)
        self._has_begun = False
        self.code, self.told = 1, list[str]()

    def _on_views(self) -> None:
        """Handle a session's views, which come with its model."""
        if self._kept.views and not self._has_begun:
            self._has_begun = True
            QTimer.singleShot(0, self, lambda: self._program.window.handout.make(self._path))

    def _on_going(self) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{' ' * _ROOM}\r{plain_text(self._kept.place)[:_ROOM]}")

    def _on_notice(self) -> None:
        """An error before the views ends it; later errors are reported on the page."""
        notice = self._notices.shown
        if notice is None or not notice.is_error or notice.message in self.told:
            return
        self.told.append(notice.message)
        if not self._has_begun:
            self._has_begun = True
            self._close(2)

    @Slot(str, str)
    def _on_ended(self, made: str, why_not: str) -> None:
        self.told.append(made or why_not)
        self._close(0 if made else 2 if why_not else 1)

    def _close(self, code: int) -> None:
        self.code = code
        QTimer.singleShot(0, self._program, self._program.close)

    def report(self) -> int:
        """Report the outcome, and what could not be shown; returns the exit code."""
        self._on_going()
        *before, last = dict.fromkeys(filter(None, self.told))
        for sentence in before:
            write_line(f"attnscope: {sentence}", sys.stderr)
        if self.code:
            write_line(f"attnscope: {last}", sys.stderr)
        else:
            write_line(last, sys.stdout)
        return self.code


def check_svg(path: Path) -> int:
    """The size in bytes of a figure that is well-formed, not empty and has text; raises ValueError."""
    content = path.read_bytes()
    try:
        root = ElementTree.fromstring(content)
    except ElementTree.ParseError as error:
        raise ValueError(f"it is not well-formed ({error})") from error
    has_text = any(element.tag.endswith("}text") and (element.text or "").strip() for element in root.iter())
    if len(content) < _MIN_BYTES or not has_text:
        raise ValueError(f"it has {len(content)} bytes and {'some' if has_text else 'no'} text")
    return len(content)
