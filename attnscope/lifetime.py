"""One life of the window: settings, crash log, hooks, event loop, and the way out."""

import dataclasses
import gc
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QApplication

from attnscope import paths
from attnscope.app import Application, Program, make_application
from attnscope.crash import CrashLog, install_hooks, remove_hooks
from attnscope.errors import UserError
from attnscope.figures.plain import plain_text
from attnscope.hooks import QtMessages, StopSignals
from attnscope.one_window import Door
from attnscope.settings import Remembered, Settings, StartOptions, read_settings, reset_settings

if TYPE_CHECKING:
    from attnscope.smoke import Smoke


def run_window(
    options: StartOptions, *, started_s: float, end_now: Callable[[int], object], door: str = ""
) -> int:
    """Open the window and stay until it is closed; returns the exit code.

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
        is_remembering=not (options.is_safe_mode or options.is_smoke),
        is_measuring=not options.is_smoke,
    )
    install_hooks(log, program.tell_fault)
    messages = QtMessages(log, program.tell_fault)
    messages.install()
    signals = StopSignals(program.close, end_now, program)
    signals.install()
    smoke = watch_smoke(program) if options.is_smoke else None
    program.ended.connect(application.quit)
    program.show()
    listen(program, application, door)
    tell_at_start(program, remembered.warning, died)
    gc.freeze()  # what a start makes stays: the collector need not walk it
    gc.enable()
    application.exec()
    program.end()
    signals.remove()
    messages.remove()
    remove_hooks()
    log.close()
    if smoke is not None:
        return report_smoke(smoke, program.milestones, started_s, is_json=options.is_json)
    return 0


def check_fonts(application: QApplication) -> None:
    """Raise UserError when no font is installed: every letter of the window would be an empty box.

    Qt then still lists three families, of which none has a letter.
    """
    if not QFontMetrics(application.font()).inFontUcs4(ord("A")):
        raise UserError(
            "No fonts are installed, so nothing in the window could be read.",
            action="Install one (Debian, Ubuntu: apt install fonts-dejavu-core; Fedora: dnf install "
            "dejavu-sans-fonts), then start AttnScope again.",
        )


def listen(program: Program, application: QApplication, door: str) -> None:
    """Open what later starts and the desktop hand over."""
    if isinstance(application, Application):
        application.file_wanted.connect(program.take_source)
    if door:
        listening = Door(door, program)
        listening.wanted.connect(program.take_source)
        program.ended.connect(listening.close)


def watch_smoke(program: Program) -> "Smoke":
    """What judges a smoke test; imported where there is one."""
    from attnscope.smoke import Smoke

    return Smoke(program)


def choose_settings(options: StartOptions) -> Remembered:
    """The settings to start with; raises UserError when they are to be reset and cannot be."""
    if options.is_reset:
        reset_settings(paths.settings_folder())
    if options.is_safe_mode or options.is_smoke:
        remembered = Remembered(settings=Settings())
    else:
        remembered = read_settings(paths.settings_folder())
    if options.device:
        chosen = dataclasses.replace(remembered.settings, device=options.device)
        remembered = dataclasses.replace(remembered, settings=chosen)
    return remembered


def tell_at_start(program: Program, warning: str, died: Path | None) -> None:
    """Show what the person must know about the last time; the more important message last."""
    if died is not None:
        action = "restore-session" if program.window.workspace.autosave is not None else ""
        message = f"AttnScope ended unexpectedly last time. Its log is {died}."
        program.session.tell_person(message, action=action)
    if warning:
        program.session.tell_person(warning)


def report_smoke(smoke: "Smoke", milestones: dict[str, float], started_s: float, *, is_json: bool) -> int:
    """Print what the smoke test saw, in one line; returns the exit code."""
    if is_json:
        times = {f"{name}_s": round(at - started_s, 4) for name, at in milestones.items()}
        line = json.dumps(
            {"ok": smoke.code == 0, "sentence": smoke.sentence, "started_at_s": started_s, **times}
        )
    else:
        judged = "ok" if smoke.code == 0 else "FAILED"
        line = f"attnscope smoke: {judged}, {plain_text(' '.join(smoke.sentence.split()))}"
    stream = sys.stdout if smoke.code == 0 or is_json else sys.stderr
    encoding = stream.encoding or "utf-8"
    stream.write(line.encode(encoding, errors="backslashreplace").decode(encoding) + "\n")
    return smoke.code
