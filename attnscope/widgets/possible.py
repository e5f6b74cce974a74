"""What can be done now, and why the rest cannot: a greyed action says the reason where its tip stands."""

from PySide6.QtGui import QAction

_TIP = "own tip"


def allow(action: QAction, why_not: str = "", *, tip: str = "") -> None:
    """Let an action be done, or grey it and have its tips say `why_not`; `tip` is another tip of its own.

    The reason stands in the tooltip, in the status bar while the entry of a menu is chosen, and in the
    command palette.
    """
    own = tip or action.property(_TIP) or action.toolTip()
    said = why_not or own
    if (action.isEnabled(), action.toolTip(), action.statusTip()) != (not why_not, said, said):
        action.setEnabled(not why_not)
        action.setToolTip(said)
        action.setStatusTip(said)
    if action.property(_TIP) != own:
        action.setProperty(_TIP, own)
