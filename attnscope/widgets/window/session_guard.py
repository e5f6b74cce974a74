"""Not writing over a session file that another program has changed since it was read or written here."""

import hashlib
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Literal

from PySide6.QtWidgets import QMessageBox, QWidget

from attnscope.errors import LoadError
from attnscope.outside import read_outside
from attnscope.viewmodels.session.reader import MAX_BYTES

Answer = Literal["overwrite", "elsewhere", "cancel"]
AskOverwrite = Callable[[QWidget, str], Answer]


class SessionGuard:
    """Knows the session file as this program last had it; another path is nobody's business here."""

    def __init__(self) -> None:
        self.path: Path | None = None
        self._digest = ""

    def remember(self, path: Path, digest: str | None = None) -> None:
        """The file was read, when it had `digest`, or has just been written."""
        self.path, self._digest = path, digest_of(path) if digest is None else digest

    def warning(self, path: Path) -> str:
        """Why writing to `path` would lose what somebody else wrote; empty where it would not."""
        is_ours = self.path is not None and self.path.resolve() == path.resolve()
        present = digest_of(path) if is_ours else ""
        if not present or present == self._digest:
            return ""
        try:
            saved = f"{datetime.fromtimestamp(path.stat().st_mtime):%H:%M:%S on %d %B %Y}"
        except (OSError, OverflowError, ValueError):
            saved = "some time"
        return (
            f"{path.name} has changed on the disk since it was opened or saved here: another program wrote "
            f"it at {saved}. Overwriting it loses what was saved there."
        )


def digest_of(path: Path) -> str:
    """The SHA-256 of a file; empty where there is none that can be read."""
    try:
        data = read_outside(path, expected="a session file", max_bytes=MAX_BYTES)
        return hashlib.sha256(data).hexdigest()
    except LoadError:
        return ""


def ask_overwrite(parent: QWidget, warning: str) -> Answer:
    """Ask what to do about a file that has changed; Esc writes nothing."""
    box = QMessageBox(parent)
    box.setIcon(QMessageBox.Icon.Warning)
    box.setWindowTitle("The session changed on the disk")
    box.setText(warning)
    elsewhere = box.addButton("Save as…", QMessageBox.ButtonRole.AcceptRole)
    overwrite = box.addButton("Overwrite", QMessageBox.ButtonRole.DestructiveRole)
    box.addButton(QMessageBox.StandardButton.Cancel)
    box.setDefaultButton(elsewhere)
    box.exec()
    if box.clickedButton() is overwrite:
        return "overwrite"
    return "elsewhere" if box.clickedButton() is elsewhere else "cancel"
