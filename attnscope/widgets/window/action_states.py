"""Which actions can be done now, and why the others cannot."""

from collections.abc import Mapping

from PySide6.QtGui import QAction

from attnscope.viewmodels.session.recorded import NO_INSIDE, is_recorded
from attnscope.viewmodels.session.state import Session
from attnscope.widgets.possible import allow

_NO_MODEL = "Open a model first"
_NO_HEAD = "Select a head first"
_RECORDED = "This is recorded attention: there is no model behind it"


def show_possible(actions: Mapping[str, QAction], session: Session) -> None:
    """Enable and name the actions that depend on the session."""
    for name, why_not in reasons(session).items():
        allow(actions[name], why_not)
    for k in range(3):
        actions[f"stack-{k + 1}"].setVisible(k < len(session.stacks))
        if k < len(session.stacks):
            actions[f"stack-{k + 1}"].setText(f"Stack {session.stacks[k]}")


def reasons(session: Session) -> dict[str, str]:
    """Why each action that depends on the session cannot be done; empty where it can."""
    is_fixed, has_model = is_recorded(session.model), session.model is not None
    no_model = "" if has_model else _NO_MODEL
    no_own_model = no_model or (_RECORDED if is_fixed else "")
    no_head = no_model or ("" if session.selection else _NO_HEAD)
    all_on = no_model or ("" if session.gates else "Every head is fully on")
    none_off = no_model or ("" if session.gates.off() else "No head is off: switch heads off first")
    return {
        "toggle-heads": no_own_model or no_head,
        "prune-all-but": no_own_model or no_head,
        "enlarge": no_head,
        "invert": no_own_model,
        "inside": NO_INSIDE if is_fixed else "",
        "save-model": no_own_model,
        "reload-model": no_model,
        "train-further": no_own_model,
        "reset": all_on,
        "remove-heads": none_off,
    }


def show_dismiss(action: QAction, session: Session, *, is_enlarged: bool, is_waiting: bool) -> None:
    """Enable Esc while there is a message, something enlarged or presented, or work that it would stop."""
    is_possible = session.notice is not None or is_enlarged or is_waiting
    allow(action, "" if is_possible else "No message is shown, and nothing is enlarged or waited for")
