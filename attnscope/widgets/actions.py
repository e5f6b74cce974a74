"""Everything that can be done from the menus, as one table; what can be done now, and why the rest cannot."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QWidget

from attnscope.records.sites import written_after
from attnscope.viewmodels.maps.aspect import PLAIN, segments_of
from attnscope.viewmodels.session.state import Session

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


Menu = Literal["File", "Edit", "View", "Model", "Window", "Help", ""]
MENUS: tuple[Menu, ...] = ("File", "Edit", "View", "Model", "Window", "Help")


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionSpec:
    """One action; `menu` empty: in no menu. `is_after_rule` puts a line above it.

    `search` are further words that find it in the command palette.
    """

    name: str
    text: str
    menu: Menu
    shortcuts: tuple[str, ...] = ()
    tip: str = ""
    search: str = ""
    is_after_rule: bool = False


ACTIONS: tuple[ActionSpec, ...] = (
    ActionSpec(name="open-model", text="Open model folder…", menu="Model", shortcuts=("Ctrl+O",)),
    ActionSpec(
        name="get-model",
        text="Get a model…",
        menu="Model",
        shortcuts=("Ctrl+Shift+M",),
        tip="Well-known open models: those on this computer first, others downloaded on request",
    ),
    ActionSpec(name="open-run", text="Open training run…", menu="Model", shortcuts=("Ctrl+Shift+O",)),
    ActionSpec(
        name="several-runs",
        text="Train several runs…",
        menu="Model",
        tip="The recipe with several seeds and values, one run after another; the best is shown",
    ),
    ActionSpec(name="save-model", text="Save model as…", menu="Model", shortcuts=("Ctrl+S",)),
    ActionSpec(
        name="remove-heads",
        text="Remove heads that are off…",
        menu="Model",
        tip="Make a smaller model with the same output as with these heads off",
        is_after_rule=True,
    ),
    ActionSpec(
        name="train-further",
        text="Fine-tune…",
        menu="Model",
        tip="A recipe on the Train page that continues from the open model on your own data",
    ),
    ActionSpec(
        name="custom-mask",
        text="Custom mask…",
        menu="Model",
        tip="Draw which tokens see which, or read it from an edge list",
        search="graph edges adjacency chain ring star tree graph neural network attention mask",
    ),
    ActionSpec(
        name="open-text",
        text="Open text…",
        menu="File",
        tip="Read the text of a file, up to 200,000 characters",
    ),
    ActionSpec(
        name="open-recording",
        text="Open recorded attention…",
        menu="File",
        tip="Look at a file that attnscope.record, attnscope.from_arrays or attnscope trace wrote",
    ),
    ActionSpec(name="open-session", text="Open session…", menu="File", shortcuts=("Ctrl+Alt+O",)),
    ActionSpec(
        name="save-session",
        text="Save session…",
        menu="File",
        shortcuts=("Ctrl+Alt+S",),
        tip="Model, texts, gates, selection and views in one small file",
    ),
    ActionSpec(
        name="restore-session",
        text="Restore the last session",
        menu="File",
        tip="What was open when AttnScope was last closed",
    ),
    ActionSpec(
        name="locate-model", text="Locate the model…", menu="", tip="Say where the session's model is now"
    ),
    ActionSpec(name="download-model", text="Download…", menu="", tip="Fetch the session's model"),
    ActionSpec(
        name="copy-python",
        text="Copy as Python",
        menu="File",
        tip="A script for the Python API that reproduces the current view",
        is_after_rule=True,
    ),
    ActionSpec(
        name="copy-command",
        text="Copy as command line",
        menu="File",
        tip="A terminal command that reproduces the current view",
    ),
    ActionSpec(
        name="reload-model",
        text="Reload model",
        menu="Model",
        shortcuts=("F5",),
        tip="Reopen the model's files and keep the text",
    ),
    ActionSpec(
        name="trace-again",
        text="Trace again",
        menu="Model",
        shortcuts=("Shift+F5",),
        tip="Read the text again after that was stopped or failed",
    ),
    ActionSpec(
        name="export",
        text="Export figure…",
        menu="File",
        shortcuts=("Ctrl+E",),
        search="save as PDF SVG PNG HTML CSV NPZ picture image screenshot print handout for a paper slides",
    ),
    ActionSpec(
        name="handout",
        text="Save handout…",
        menu="File",
        tip="A PDF of all kept views, one on each page, with the notes on it",
        search="print slides export all kept views lecture pages paper",
    ),
    ActionSpec(
        name="copy-figure",
        text="Copy figure",
        menu="File",
        shortcuts=("Ctrl+Shift+C",),
        search="screenshot clipboard paste into slides",
    ),
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
        search="turn off ablate ablation delete disable mute without this head",
        is_after_rule=True,
    ),
    ActionSpec(
        name="prune-all-but",
        text="Prune all but selected",
        menu="Edit",
        shortcuts=("Ctrl+P",),
        tip="Switch off every other head of the stack shown",
    ),
    ActionSpec(
        name="invert", text="Invert gates", menu="Edit", shortcuts=("Ctrl+I",), tip="Each g becomes 1 − g"
    ),
    ActionSpec(
        name="reset", text="Reset gates", menu="Edit", shortcuts=("Ctrl+R",), tip="Every head fully on"
    ),
    ActionSpec(
        name="keep-a",
        text="Keep this as A",
        menu="Edit",
        shortcuts=("Ctrl+Alt+A",),
        tip="Store model, text, gates and interventions as side A of the Compare page",
        is_after_rule=True,
    ),
    ActionSpec(
        name="keep-b",
        text="Keep this as B",
        menu="Edit",
        shortcuts=("Ctrl+Alt+B",),
        tip="Store model, text, gates and interventions as side B of the Compare page",
    ),
    ActionSpec(
        name="keep-view",
        text="Keep this view",
        menu="Edit",
        shortcuts=("Ctrl+Shift+K",),
        tip="Add a named view, saved with the session; step through views while presenting",
        search="bookmark remember slide lecture",
    ),
    ActionSpec(name="page-explore", text="Explore", menu="View", shortcuts=("Ctrl+1",)),
    ActionSpec(
        name="page-compare",
        text="Compare",
        menu="View",
        shortcuts=("Ctrl+2",),
        tip="Any two things side by side: texts, models, checkpoints, before and after a change",
        search="minimal pair two sentences difference of attention",
    ),
    ActionSpec(
        name="page-heads",
        text="Heads",
        menu="View",
        shortcuts=("Ctrl+3",),
        search="analysis of heads what heads do head roles positional syntactic rare words Voita 2019",
    ),
    ActionSpec(name="page-positions", text="Positions", menu="View", shortcuts=("Ctrl+4",)),
    ActionSpec(name="page-train", text="Train", menu="View", shortcuts=("Ctrl+5",)),
    ActionSpec(
        name="page-labs",
        text="Labs",
        menu="View",
        shortcuts=("Ctrl+6",),
        tip="Try one thing at a time: scores, masks, positions, depth and training, cost, tokens",
    ),
    ActionSpec(
        name="page-learn",
        text="Learn",
        menu="View",
        shortcuts=("Ctrl+7",),
        tip="Guided tours, examples, help, and recently opened files",
    ),
    ActionSpec(
        name="swap-sides",
        text="Swap A and B",
        menu="View",
        shortcuts=("S",),
        tip="On the Compare page: A becomes B and B becomes A",
    ),
    ActionSpec(name="stack-1", text="First stack", menu="View", shortcuts=("1",), is_after_rule=True),
    ActionSpec(name="stack-2", text="Second stack", menu="View", shortcuts=("2",)),
    ActionSpec(name="stack-3", text="Third stack", menu="View", shortcuts=("3",)),
    ActionSpec(name="heatmap", text="Head as heatmap", menu="View", shortcuts=("H",), is_after_rule=True),
    ActionSpec(name="lines", text="Heads as lines", menu="View", shortcuts=("L",)),
    ActionSpec(
        name="picture",
        text="Head on the picture",
        menu="View",
        shortcuts=("P",),
        tip="Vision models: where one patch looks, overlaid on the picture",
    ),
    ActionSpec(
        name="inside",
        text="Head step by step",
        menu="View",
        shortcuts=("I",),
        tip="One query step by step: q · k, scale, mask, softmax, values, output",
    ),
    ActionSpec(name="enlarge", text="Enlarge the head", menu="View", shortcuts=("Ctrl+Shift+F", "F")),
    ActionSpec(
        name="present",
        text="Present",
        menu="View",
        shortcuts=("F11",),
        tip="Show only the essentials, for a projector; F11 or Esc brings everything back",
        search="full screen fullscreen slide show slideshow beamer lecture",
    ),
    ActionSpec(
        name="next-view",
        text="Next kept view",
        menu="View",
        shortcuts=("Ctrl+PgDown",),
        tip="The view kept after this one; while presenting Page Down does it too",
        search="next slide bookmark",
    ),
    ActionSpec(
        name="previous-view",
        text="Previous kept view",
        menu="View",
        shortcuts=("Ctrl+PgUp",),
        tip="The view kept before this one; while presenting Page Up does it too",
        search="previous slide bookmark",
    ),
    ActionSpec(
        name="show-as",
        text="Show as…",
        menu="View",
        shortcuts=("M",),
        tip="Heads blended, keys left out, scale, colours, theme: every display option",
        is_after_rule=True,
    ),
    ActionSpec(name="renormalise", text="Renormalise rows", menu="View", shortcuts=("N",)),
    ActionSpec(name="by-word", text="Merge subwords", menu="View", shortcuts=("W",)),
    ActionSpec(name="plain-maps", text="Reset map options", menu="View", shortcuts=("Shift+K",)),
    ActionSpec(
        name="larger",
        text="Larger type",
        menu="Window",
        shortcuts=("Ctrl++", "Ctrl+="),
        search="bigger font size zoom in",
    ),
    ActionSpec(
        name="smaller", text="Smaller type", menu="Window", shortcuts=("Ctrl+-",), search="font size zoom out"
    ),
    ActionSpec(
        name="history",
        text="History",
        menu="Window",
        shortcuts=("Ctrl+H",),
        tip="All steps so far; click one to go back to it",
        is_after_rule=True,
    ),
    ActionSpec(
        name="kept-views",
        text="Kept views and notes",
        menu="Window",
        shortcuts=("Ctrl+Alt+K",),
        tip="Views to come back to, for example in a lecture, and your notes; saved with the session",
        search="bookmarks slides speaker notes",
    ),
    ActionSpec(
        name="work",
        text="Background tasks",
        menu="Window",
        tip="Long-running work with its progress; each task can be stopped",
    ),
    ActionSpec(
        name="own-grid",
        text="Grid in its own window",
        menu="Window",
        is_after_rule=True,
    ),
    ActionSpec(name="own-head", text="Head in its own window", menu="Window"),
    ActionSpec(name="own-lines", text="Lines in their own window", menu="Window"),
    ActionSpec(name="own-inspector", text="Inspector in its own window", menu="Window"),
    ActionSpec(name="own-output", text="Output in its own window", menu="Window"),
    ActionSpec(
        name="reset-layout",
        text="Reset the layout",
        menu="Window",
        shortcuts=("Ctrl+Alt+0",),
        tip="Every panel back in its page, splitters at their defaults, type at 100 %",
        is_after_rule=True,
    ),
    ActionSpec(
        name="palette",
        text="Find a command…",
        menu="Help",
        shortcuts=("Ctrl+Shift+P", "Ctrl+K"),
        tip="Find any command, page, model, sample or head",
    ),
    ActionSpec(name="shortcuts", text="Shortcuts", menu="Help", shortcuts=("F1",)),
    ActionSpec(
        name="help-here",
        text="Help on this page",
        menu="Help",
        shortcuts=("Ctrl+F1",),
        tip="What is shown here, how to read it, and what each control does",
    ),
    ActionSpec(name="about", text="About AttnScope", menu="Help", shortcuts=("Shift+F1",)),
    ActionSpec(name="dismiss", text="Dismiss message, back to the grid", menu="", shortcuts=("Esc",)),
)

HEAD_ACTIONS = ("toggle-heads", "prune-all-but", "invert", "reset", "enlarge", "export", "copy-figure")
"""What the context menu of a head offers."""

HANDS: tuple[tuple[str, str], ...] = (
    ("Select a head", "click, arrow keys"),
    ("Add a head to the selection", "Ctrl+click"),
    ("Switch the selected heads off or on", "Space"),
    ("Turn a head off or on", "the switch in a thumbnail's corner"),
    ("Enlarge a head", "double click, Enter"),
    ("Zoom at the cursor", "wheel, + and −"),
    ("Pan", "drag"),
    ("Fit", "0"),
    ("Move between tokens", "← → in the token strip"),
    ("Labs: another lab", "↑ ↓ in the list"),
    ("Kept views: go, rename, remove, move", "Enter, F2, Delete, Alt+↑ ↓"),
    ("On a picture: choose a patch, the first token", "click, ← → ↑ ↓, Home"),
    ("Step by step: next step, query, key", "← →, ↑ ↓, Shift+↑ ↓"),
)
"""What the mouse and keys do inside the views."""


def build_actions(parent: QWidget) -> dict[str, QAction]:
    """Every action of the table, working in the whole window once it has its handler."""
    actions: dict[str, QAction] = {}
    for spec in ACTIONS:
        action = QAction(spec.text, parent)
        action.setObjectName(spec.name)
        action.setShortcuts([QKeySequence(keys) for keys in spec.shortcuts])
        tip = spec.tip or spec.text.rstrip("…")
        allow(action, tip=f"{tip} ({spec.shortcuts[0]})" if spec.shortcuts else tip)
        parent.addAction(action)
        actions[spec.name] = action
    return actions


def connect_actions(actions: Mapping[str, QAction], handlers: Mapping[str, Callable[[], None]]) -> None:
    """Let every action do what its handler does; raises KeyError for an action without one."""
    for name, action in actions.items():
        action.triggered.connect(_without_argument(handlers[name]))


def _without_argument(handler: Callable[[], None]) -> Callable[[], None]:
    """Qt passes `checked` to what can take it."""

    def run() -> None:
        handler()

    return run


def aspect_handlers(session: Session) -> Mapping[str, Callable[[], None]]:
    """One handler for each action about the aspect."""

    def renormalise() -> None:
        session.set_aspect(replace(session.aspect, is_renormalised=not session.aspect.is_renormalised))

    def by_word() -> None:
        if not (session.aspect.is_by_word or has_words(session)):
            session.notices.say("A picture has patches, not words.")
            return
        session.set_aspect(replace(session.aspect, is_by_word=not session.aspect.is_by_word))

    def plain() -> None:
        session.set_aspect(PLAIN)

    return {
        "renormalise": renormalise,
        "by-word": by_word,
        "plain-maps": plain,
    }


def writes(session: Session) -> bool:
    """Whether the rows of the shown stack write: they can be called after what is written or read there."""
    traced, stack = session.traced, session.stack
    return traced is not None and stack is not None and written_after(stack, traced.target) is not None


def has_words(session: Session) -> bool:
    """Whether what the model reads has words: a picture has none."""
    return session.model is None or session.model.reads != "picture"


def has_two_texts(session: Session) -> bool:
    """Whether the shown maps are of two texts that the model reads as one."""
    own = next((m for m in session.maps.raw if m.head == session.primary), None)
    return own is not None and all(segments_of(one) is not None for one in (own.queries, own.keys))
