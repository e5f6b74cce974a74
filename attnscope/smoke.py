"""Does the installed program work? Opens it, waits for a trace, exports a figure, checks both, ends.

`attnscope --smoke` runs this offscreen, from a checkout, a wheel or a bundle.
"""

import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Slot

from attnscope.app import Program
from attnscope.errors import UserError

WITHIN_S = 60.0
_MIN_BYTES = 2_000


class Smoke(QObject):
    """Watches a program until it has shown a trace; `code` is then 0, and `sentence` says what was seen."""

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
        """Export the figure that is shown and judge it and the trace."""
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
