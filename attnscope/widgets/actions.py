"""All menu actions as one table; which are enabled, and why others are not."""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Literal

from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QWidget

from attnscope.records.sites import written_after
from attnscope.viewmodels.maps.aspect import PLAIN, segments_of
from attnscope.viewmodels.session.state import Session

_TIP = "own tip"


def allow(action: QAction, why_not: str = "", *, tip: str = "") -> None:
    """Enable an action, or disable it with `why_not` in its tips; `tip` is another tip of its own.

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


@dataclass(frozen=True, slots=True)
class ActionSpec:
    """One action; `menu` empty: in no menu. `is_after_rule` puts a line above it.

    `search` are further words that find it in the command palette.
    """

    name: str
    text: str
    menu: Menu
    _: KW_ONLY
    shortcuts: tuple[str, ...] = ()
    tip: str = ""
    search: str = ""
    is_after_rule: bool = False


ACTIONS: tuple[ActionSpec, ...] = (
    ActionSpec("open-model", "Open model folder…", "Model", shortcuts=("Ctrl+O",)),
    ActionSpec(
        "get-model",
        "Get a model…",
        "Model",
        shortcuts=("Ctrl+Shift+M",),
        tip="Well-known open models: those on this computer first, others downloaded on request",
    ),
    ActionSpec("open-run", "Open training run…", "Model", shortcuts=("Ctrl+Shift+O",)),
    ActionSpec(
        "several-runs",
        "Train several runs…",
        "Model",
        tip="The recipe with several seeds and values, one run after another; the best is shown",
    ),
    ActionSpec("save-model", "Save model as…", "Model", shortcuts=("Ctrl+S",)),
    ActionSpec(
        "remove-heads",
        "Remove heads that are off…",
        "Model",
        tip="Make a smaller model with the same output as with these heads off",
        is_after_rule=True,
    ),
    ActionSpec(
        "train-further",
        "Fine-tune…",
        "Model",
        tip="A recipe on the Train page that continues from the open model on your own data",
    ),
    ActionSpec(
        "custom-mask",
        "Custom mask…",
        "Model",
        tip="Draw which tokens see which, or read it from an edge list",
        search="graph edges adjacency chain ring star tree graph neural network attention mask",
    ),
    ActionSpec("open-text", "Open text…", "File", tip="Read the text of a file, up to 200,000 characters"),
    ActionSpec(
        "open-recording",
        "Open recorded attention…",
        "File",
        tip="Look at a file that attnscope.record, attnscope.from_arrays or attnscope trace wrote",
    ),
    ActionSpec("open-session", "Open session…", "File", shortcuts=("Ctrl+Alt+O",)),
    ActionSpec(
        "save-session",
        "Save session…",
        "File",
        shortcuts=("Ctrl+Alt+S",),
        tip="Model, texts, gates, selection and views in one small file",
    ),
    ActionSpec(
        "restore-session",
        "Restore the last session",
        "File",
        tip="What was open when AttnScope was last closed",
    ),
    ActionSpec("locate-model", "Locate the model…", "", tip="Say where the session's model is now"),
    ActionSpec("download-model", "Download…", "", tip="Fetch the session's model"),
    ActionSpec(
        "copy-python",
        "Copy as Python",
        "File",
        tip="A script for the Python API that reproduces the current view",
        is_after_rule=True,
    ),
    ActionSpec(
        "copy-command",
        "Copy as command line",
        "File",
        tip="A terminal command that reproduces the current view",
    ),
    ActionSpec(
        "reload-model",
        "Reload model",
        "Model",
        shortcuts=("F5",),
        tip="Reopen the model's files and keep the text",
    ),
    ActionSpec(
        "trace-again",
        "Trace again",
        "Model",
        shortcuts=("Shift+F5",),
        tip="Read the text again after that was stopped or failed",
    ),
    ActionSpec(
        "export",
        "Export figure…",
        "File",
        shortcuts=("Ctrl+E",),
        search="save as PDF SVG PNG HTML CSV NPZ picture image screenshot print handout for a paper slides",
    ),
    ActionSpec(
        "handout",
        "Save handout…",
        "File",
        tip="A PDF of all kept views, one on each page, with the notes on it",
        search="print slides export all kept views lecture pages paper",
    ),
    ActionSpec(
        "copy-figure",
        "Copy figure",
        "File",
        shortcuts=("Ctrl+Shift+C",),
        search="screenshot clipboard paste into slides",
    ),
    ActionSpec("quit", "Quit", "File", shortcuts=("Ctrl+Q",), is_after_rule=True),
    ActionSpec("undo", "Undo", "Edit", shortcuts=("Ctrl+Z", "Z")),
    ActionSpec("redo", "Redo", "Edit", shortcuts=("Ctrl+Shift+Z", "Ctrl+Y", "Shift+Z")),
    ActionSpec("edit-text", "Edit the text", "Edit", shortcuts=("Ctrl+T",), is_after_rule=True),
    ActionSpec(
        "toggle-heads",
        "Switch selected heads off or on",
        "Edit",
        shortcuts=("Ctrl+G",),
        tip="Gate 0 removes a head's output; Space does the same in the grid",
        search="turn off ablate ablation delete disable mute without this head",
        is_after_rule=True,
    ),
    ActionSpec(
        "prune-all-but",
        "Prune all but selected",
        "Edit",
        shortcuts=("Ctrl+P",),
        tip="Switch off every other head of the stack shown",
    ),
    ActionSpec("invert", "Invert gates", "Edit", shortcuts=("Ctrl+I",), tip="Each g becomes 1 − g"),
    ActionSpec("reset", "Reset gates", "Edit", shortcuts=("Ctrl+R",), tip="Every head fully on"),
    ActionSpec(
        "keep-a",
        "Keep this as A",
        "Edit",
        shortcuts=("Ctrl+Alt+A",),
        tip="Store model, text, gates and interventions as side A of the Compare page",
        is_after_rule=True,
    ),
    ActionSpec(
        "keep-b",
        "Keep this as B",
        "Edit",
        shortcuts=("Ctrl+Alt+B",),
        tip="Store model, text, gates and interventions as side B of the Compare page",
    ),
    ActionSpec(
        "keep-view",
        "Keep this view",
        "Edit",
        shortcuts=("Ctrl+Shift+K",),
        tip="Add a named view, saved with the session; step through views while presenting",
        search="bookmark remember slide lecture",
    ),
    ActionSpec("page-explore", "Explore", "View", shortcuts=("Ctrl+1",)),
    ActionSpec(
        "page-compare",
        "Compare",
        "View",
        shortcuts=("Ctrl+2",),
        tip="Any two things side by side: texts, models, checkpoints, before and after a change",
        search="minimal pair two sentences difference of attention",
    ),
    ActionSpec(
        "page-heads",
        "Heads",
        "View",
        shortcuts=("Ctrl+3",),
        search="analysis of heads what heads do head roles positional syntactic rare words Voita 2019",
    ),
    ActionSpec("page-positions", "Positions", "View", shortcuts=("Ctrl+4",)),
    ActionSpec("page-train", "Train", "View", shortcuts=("Ctrl+5",)),
    ActionSpec(
        "page-labs",
        "Labs",
        "View",
        shortcuts=("Ctrl+6",),
        tip="Try one thing at a time: scores, masks, positions, depth and training, cost, tokens",
    ),
    ActionSpec(
        "page-learn",
        "Learn",
        "View",
        shortcuts=("Ctrl+7",),
        tip="Guided tours, examples, help, and recently opened files",
    ),
    ActionSpec(
        "swap-sides",
        "Swap A and B",
        "View",
        shortcuts=("S",),
        tip="On the Compare page: A becomes B and B becomes A",
    ),
    ActionSpec("stack-1", "First stack", "View", shortcuts=("1",), is_after_rule=True),
    ActionSpec("stack-2", "Second stack", "View", shortcuts=("2",)),
    ActionSpec("stack-3", "Third stack", "View", shortcuts=("3",)),
    ActionSpec("heatmap", "Head as heatmap", "View", shortcuts=("H",), is_after_rule=True),
    ActionSpec("lines", "Heads as lines", "View", shortcuts=("L",)),
    ActionSpec(
        "picture",
        "Head on the picture",
        "View",
        shortcuts=("P",),
        tip="Vision models: where one patch looks, overlaid on the picture",
    ),
    ActionSpec(
        "inside",
        "Head step by step",
        "View",
        shortcuts=("I",),
        tip="One query step by step: q · k, scale, mask, softmax, values, output",
    ),
    ActionSpec("enlarge", "Enlarge the head", "View", shortcuts=("Ctrl+Shift+F", "F")),
    ActionSpec(
        "present",
        "Present",
        "View",
        shortcuts=("F11",),
        tip="Show only the essentials, for a projector; F11 or Esc brings everything back",
        search="full screen fullscreen slide show slideshow beamer lecture",
    ),
    ActionSpec(
        "next-view",
        "Next kept view",
        "View",
        shortcuts=("Ctrl+PgDown",),
        tip="The view kept after this one; while presenting Page Down does it too",
        search="next slide bookmark",
    ),
    ActionSpec(
        "previous-view",
        "Previous kept view",
        "View",
        shortcuts=("Ctrl+PgUp",),
        tip="The view kept before this one; while presenting Page Up does it too",
        search="previous slide bookmark",
    ),
    ActionSpec(
        "show-as",
        "Show as…",
        "View",
        shortcuts=("M",),
        tip="Heads blended, keys left out, scale, colours, theme: every display option",
        is_after_rule=True,
    ),
    ActionSpec("renormalise", "Renormalise rows", "View", shortcuts=("N",)),
    ActionSpec("by-word", "Merge subwords", "View", shortcuts=("W",)),
    ActionSpec("plain-maps", "Reset map options", "View", shortcuts=("Shift+K",)),
    ActionSpec(
        "larger", "Larger type", "Window", shortcuts=("Ctrl++", "Ctrl+="), search="bigger font size zoom in"
    ),
    ActionSpec("smaller", "Smaller type", "Window", shortcuts=("Ctrl+-",), search="font size zoom out"),
    ActionSpec(
        "history",
        "History",
        "Window",
        shortcuts=("Ctrl+H",),
        tip="All steps so far; click one to go back to it",
        is_after_rule=True,
    ),
    ActionSpec(
        "kept-views",
        "Kept views and notes",
        "Window",
        shortcuts=("Ctrl+Alt+K",),
        tip="Views to come back to, for example in a lecture, and your notes; saved with the session",
        search="bookmarks slides speaker notes",
    ),
    ActionSpec(
        "work",
        "Background tasks",
        "Window",
        tip="Long-running work with its progress; each task can be stopped",
    ),
    ActionSpec("own-grid", "Grid in its own window", "Window", is_after_rule=True),
    ActionSpec("own-head", "Head in its own window", "Window"),
    ActionSpec("own-lines", "Lines in their own window", "Window"),
    ActionSpec("own-inspector", "Inspector in its own window", "Window"),
    ActionSpec("own-output", "Output in its own window", "Window"),
    ActionSpec(
        "reset-layout",
        "Reset the layout",
        "Window",
        shortcuts=("Ctrl+Alt+0",),
        tip="Every panel back in its page, splitters at their defaults, type at 100 %",
        is_after_rule=True,
    ),
    ActionSpec(
        "palette",
        "Find a command…",
        "Help",
        shortcuts=("Ctrl+Shift+P", "Ctrl+K"),
        tip="Find any command, page, model, sample or head",
    ),
    ActionSpec("shortcuts", "Shortcuts", "Help", shortcuts=("F1",)),
    ActionSpec(
        "help-here",
        "Help on this page",
        "Help",
        shortcuts=("Ctrl+F1",),
        tip="What is shown here, how to read it, and what each control does",
    ),
    ActionSpec("about", "About AttnScope", "Help", shortcuts=("Shift+F1",)),
    ActionSpec("dismiss", "Dismiss message, back to the grid", "", shortcuts=("Esc",)),
)

HEAD_ACTIONS = ("toggle-heads", "prune-all-but", "invert", "reset", "enlarge", "export", "copy-figure")
"""The context menu of a head."""

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
"""Mouse and keyboard in the views."""


def build_actions(parent: QWidget) -> dict[str, QAction]:
    """Every action of the table, active in the whole window once it has its handler."""
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
    """Connect every action with its handler; raises KeyError for an action without one."""
    for name, action in actions.items():
        action.triggered.connect(_without_argument(handlers[name]))


def _without_argument(handler: Callable[[], None]) -> Callable[[], None]:
    """Qt passes `checked` to any callable that accepts it."""

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
    """Whether the rows of the shown stack generate tokens, after which they can be named."""
    traced, stack = session.traced, session.stack
    return traced is not None and stack is not None and written_after(stack, traced.target) is not None


def has_words(session: Session) -> bool:
    """Whether the model's input has words: a picture has none."""
    return session.model is None or session.model.reads != "picture"


def has_two_texts(session: Session) -> bool:
    """Whether the shown maps are of two texts that the model reads as one."""
    own = next((m for m in session.maps.raw if m.head == session.primary), None)
    return own is not None and all(segments_of(one) is not None for one in (own.queries, own.keys))
