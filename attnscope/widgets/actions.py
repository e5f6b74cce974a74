"""Everything that can be done from the menus, as one table: name, text, place, shortcut."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QWidget

Menu = Literal["File", "Edit", "View", "Model", "Help", ""]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionSpec:
    """One action; `menu` empty: in no menu. `is_after_rule` puts a line above it."""

    name: str
    text: str
    menu: Menu
    shortcuts: tuple[str, ...] = ()
    tip: str = ""
    is_after_rule: bool = False


ACTIONS: tuple[ActionSpec, ...] = (
    ActionSpec(name="open-model", text="Open model folder…", menu="Model", shortcuts=("Ctrl+O",)),
    ActionSpec(name="open-run", text="Open training run…", menu="Model", shortcuts=("Ctrl+Shift+O",)),
    ActionSpec(name="save-model", text="Save model as…", menu="Model", shortcuts=("Ctrl+S",)),
    ActionSpec(name="export", text="Export figure…", menu="File", shortcuts=("Ctrl+E",)),
    ActionSpec(name="copy-figure", text="Copy figure", menu="File", shortcuts=("Ctrl+Shift+C",)),
    ActionSpec(name="quit", text="Quit", menu="File", shortcuts=("Ctrl+Q",), is_after_rule=True),
    ActionSpec(name="undo", text="Undo", menu="Edit", shortcuts=("Ctrl+Z", "Z")),
    ActionSpec(name="redo", text="Redo", menu="Edit", shortcuts=("Ctrl+Shift+Z", "Ctrl+Y", "Shift+Z")),
    ActionSpec(
        name="edit-text", text="Edit the text", menu="Edit", shortcuts=("Ctrl+T",), is_after_rule=True
    ),
    ActionSpec(
        name="toggle-heads",
        text="Switch selected heads off or on",
        menu="Edit",
        shortcuts=("Ctrl+G",),
        tip="Gate 0 removes a head's output; Space does the same in the grid",
        is_after_rule=True,
    ),
    ActionSpec(
        name="prune-all-but",
        text="Prune all but selected",
        menu="Edit",
        shortcuts=("Ctrl+P",),
        tip="Switch off every other head of the model",
    ),
    ActionSpec(
        name="invert", text="Invert gates", menu="Edit", shortcuts=("Ctrl+I",), tip="Each g becomes 1 − g"
    ),
    ActionSpec(
        name="reset", text="Reset gates", menu="Edit", shortcuts=("Ctrl+R",), tip="Every head fully on"
    ),
    ActionSpec(name="page-explore", text="Explore", menu="View", shortcuts=("Ctrl+1",)),
    ActionSpec(name="page-positions", text="Positions", menu="View", shortcuts=("Ctrl+2",)),
    ActionSpec(name="page-train", text="Train", menu="View", shortcuts=("Ctrl+3",)),
    ActionSpec(name="stack-1", text="First stack", menu="View", shortcuts=("1",), is_after_rule=True),
    ActionSpec(name="stack-2", text="Second stack", menu="View", shortcuts=("2",)),
    ActionSpec(name="stack-3", text="Third stack", menu="View", shortcuts=("3",)),
    ActionSpec(name="heatmap", text="Head as heatmap", menu="View", shortcuts=("H",), is_after_rule=True),
    ActionSpec(name="lines", text="Heads as lines", menu="View", shortcuts=("L",)),
    ActionSpec(name="enlarge", text="Enlarge the head", menu="View", shortcuts=("Ctrl+Shift+F", "F")),
    ActionSpec(name="next-scale", text="Next scale", menu="View", shortcuts=("Ctrl+L",), is_after_rule=True),
    ActionSpec(name="next-colours", text="Next colour map", menu="View", shortcuts=("Ctrl+M",)),
    ActionSpec(name="next-theme", text="Light, dark or system", menu="View", shortcuts=("Ctrl+D",)),
    ActionSpec(name="shortcuts", text="Shortcuts", menu="Help", shortcuts=("F1",)),
    ActionSpec(name="about", text="About AttnScope", menu="Help", shortcuts=("Shift+F1",)),
    ActionSpec(name="dismiss", text="Dismiss message, back to the grid", menu="", shortcuts=("Esc",)),
)

HEAD_ACTIONS = ("toggle-heads", "prune-all-but", "invert", "reset", "enlarge", "export", "copy-figure")
"""What the context menu of a head offers."""

HANDS: tuple[tuple[str, str], ...] = (
    ("Select a head", "click, arrow keys"),
    ("Add a head to the selection", "Ctrl+click"),
    ("Switch the selected head off or on", "Space"),
    ("Turn a head off or on", "click the switch at a thumbnail's corner"),
    ("Enlarge a head", "double click, Enter"),
    ("Zoom at the cursor", "wheel, + and −"),
    ("Pan", "drag"),
    ("Fit", "0"),
    ("Walk the tokens", "← → in the token strip"),
)
"""What the mouse and keys do inside the views."""


def build_actions(parent: QWidget, handlers: Mapping[str, Callable[[], None]]) -> dict[str, QAction]:
    """Every action of the table, working in the whole window; each needs a handler."""
    actions: dict[str, QAction] = {}
    for spec in ACTIONS:
        action = QAction(spec.text, parent)
        action.setObjectName(spec.name)
        action.setShortcuts([QKeySequence(keys) for keys in spec.shortcuts])
        tip = spec.tip or spec.text.rstrip("…")
        action.setToolTip(f"{tip} ({spec.shortcuts[0]})" if spec.shortcuts else tip)
        action.setStatusTip("")
        action.triggered.connect(_without_argument(handlers[spec.name]))
        parent.addAction(action)
        actions[spec.name] = action
    return actions


def _without_argument(handler: Callable[[], None]) -> Callable[[], None]:
    """Qt passes `checked` to what can take it."""

    def run() -> None:
        handler()

    return run
