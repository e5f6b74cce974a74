"""Which actions can be done now."""

from collections.abc import Mapping

from PySide6.QtGui import QAction

from attnscope.viewmodels.session.state import Session


def show_possible(actions: Mapping[str, QAction], session: Session) -> None:
    """Enable and name the actions that depend on the session."""
    is_model = session.model is not None and not session.model.is_recorded
    has_model, has_head = session.model is not None, bool(session.selection)
    possible = {
        "toggle-heads": has_head and is_model,
        "prune-all-but": has_head and is_model,
        "enlarge": has_head,
        "invert": is_model,
        "inside": is_model or not has_model,
        "save-model": is_model,
        "reload-model": has_model,
        "train-further": is_model,
        "reset": bool(session.gates),
        "remove-heads": has_model and bool(session.gates.off()),
    }
    for name, is_possible in possible.items():
        actions[name].setEnabled(is_possible)
    for k in range(3):
        actions[f"stack-{k + 1}"].setVisible(k < len(session.stacks))
        if k < len(session.stacks):
            actions[f"stack-{k + 1}"].setText(f"Stack {session.stacks[k]}")


def show_dismiss(action: QAction, session: Session, *, is_enlarged: bool, is_waiting: bool) -> None:
    """Enable Esc while there is a message, something enlarged or presented, or work that it would stop."""
    action.setEnabled(session.notice is not None or is_enlarged or is_waiting)
