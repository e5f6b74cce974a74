"""The menu actions: each calls the session or the view, or opens a dialog.

A copied figure is pixels for everyone, and SVG for programs that take it, never more than fits.
"""

import dataclasses
import math
import re
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path

from PySide6.QtCore import QByteArray, QMimeData, QObject, Qt, QTimer, Signal, Slot
from PySide6.QtGui import QAction, QGuiApplication, QImage
from PySide6.QtWidgets import QMessageBox, QProgressDialog, QWidget

from attnscope import paths
from attnscope.counting import plural
from attnscope.errors import UserError
from attnscope.figures.colours import LIGHT, Palette
from attnscope.figures.spec import MIN_DPI, FigureSpec
from attnscope.figures.style import plain_text
from attnscope.figures.words_and_numbers import program_version
from attnscope.files import replace_file
from attnscope.records.models import Sample
from attnscope.viewmodels.heads.pruning import PruningState
from attnscope.viewmodels.session.opening import Recents, open_and_explore
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.states import States
from attnscope.viewmodels.training.recipe_text import (
    finetune_name,
    finetune_recipe,
    fresh_folder,
    why_not_finetune,
)
from attnscope.viewmodels.training.state import TrainingState
from attnscope.viewmodels.view_state import HeadViewKind, Page, ViewState
from attnscope.widgets.dialogs import ask_file, ask_folder, ask_new_folder
from attnscope.widgets.export.dialog import LastExport, open_export
from attnscope.widgets.export.figures_offered import current_figure
from attnscope.widgets.heads.pruning import PruneDialog
from attnscope.widgets.labels import when
from attnscope.widgets.theme import theme_of
from attnscope.widgets.tours.help_panel import ShortcutsSheet
from attnscope.widgets.window.pages import Pages
from attnscope.widgets.window.session_files import SessionFiles

ChooseFolder = Callable[[QWidget, str, str], str]
OfferFigures = Callable[[], dict[str, FigureSpec]]


def _new_place(name: str) -> str:
    """A new folder among a user's own files, named after a model."""
    return str(fresh_folder(paths.documents_folder(), re.sub(r"[/\\\0]", "-", name)[:100]))


PRESENTING = "presenting"
"""Subject of the note that says how presenting ends."""


class FigureCommands:
    """Export and copy the current figure; `last` is the target and settings of the last one."""

    def __init__(
        self,
        session: Session,
        view: ViewState,
        window: QWidget,
        offer_figures: OfferFigures,
        *,
        folder: str = "",
        choices: str = "",
    ) -> None:
        self._session, self._view, self._window = session, view, window
        self._offer_figures = offer_figures
        self.last = LastExport(window, folder=folder, choices=choices)

    def handlers(self) -> Mapping[str, Callable[[], None]]:
        """One handler for each action that belongs here."""
        return {"export": self.export, "copy-figure": self.copy_figure}

    def export(self) -> None:
        """Open the export dialog on the current figure."""
        offered = self._offer_figures()
        shown = current_figure(self._view, offered)
        if shown is None:
            self._session.notices.say("There is no figure yet: type a sentence or open a run first.")
            return
        dialog = open_export(offered, shown, self._window)
        dialog.exported.connect(self._on_exported)
        if "grid" in offered:
            when(dialog, lambda: dialog.take_numbers(self._grid()), self._session.changed.heads)
            self._session.maps.fetch_stack()

    def _grid(self) -> dict[str, FigureSpec]:
        """The grid of all heads, with their exact weights once received."""
        return {name: spec for name, spec in self._offer_figures().items() if name == "grid"}

    def copy_figure(self) -> None:
        """Copy the current figure to the clipboard."""
        offered = self._offer_figures()
        shown = current_figure(self._view, offered)
        if shown is None:
            self._session.notices.say("There is no figure yet: type a sentence or open a run first.")
            return
        try:
            to_clipboard(offered[shown])
        except UserError as error:
            self._session.notices.say(str(error), is_error=True)
        else:
            self._session.notices.say(f"The figure ({shown}) is on the clipboard.")

    def _on_exported(self, path: str) -> None:
        self._session.notices.say(f"Saved {path}.")


_TICK_MS, _CALM_TICKS, _MOST_TICKS = 60, 5, 400
_FIGURE_OF = {"compare": "difference", "positions": "positions", "train": "curves", "labs": "lab"}
_NOT_SHOWN = "This view could not be shown: its model or its run is not there."


class Handout(QObject):
    """Steps through the kept views, and writes each one, with its note, as a page of a PDF.

    `dress` gives the window another theme: a page that has no figure is light on paper. `ended` tells what
    was made, or why nothing could be; neither where it was cancelled.
    """

    ended = Signal(str, str)

    def __init__(
        self,
        states: States,
        view: ViewState,
        window: QWidget,
        files: SessionFiles,
        pages: Pages,
        dress: Callable[[Palette], None],
    ) -> None:
        super().__init__(window)
        self._session, self._view, self._window = states.session, view, window
        self._measuring, self._files = states.heads.job, files
        self._pages, self._dress = pages, dress
        self.ask_file = ask_file
        self._timer = QTimer(self, interval=_TICK_MS)
        self._timer.timeout.connect(self._go_on)
        self._work: Iterator[None] = iter(())

    def ask(self) -> None:
        """Ask for a file, and make the handout."""
        start = str(Path.home() / "handout.pdf")
        path = self.ask_file(self._window, "Save handout", start, "PDF (*.pdf)")
        if path:
            self.make(Path(path))

    def make(self, path: Path) -> None:
        """Begin, unless one is being made; the current view returns at the end."""
        if self._timer.isActive():
            return
        progress = QProgressDialog(self._window)
        progress.setWindowTitle("Save handout")
        progress.setWindowModality(Qt.WindowModality.WindowModal)
        progress.setAutoReset(False)
        progress.setMinimumDuration(0)
        self._work = self._walk(path, progress)
        self._timer.start()

    @Slot()
    def _go_on(self) -> None:
        made = why_not = ""
        try:
            next(self._work)
            return
        except StopIteration as end:
            made = end.value or ""  # none after an error that is a fault
        except UserError as error:
            why_not = str(error)
        self._timer.stop()
        if made or why_not:
            self._session.notices.say(made or why_not, is_error=bool(why_not))
        self.ended.emit(made, why_not)

    def _walk(self, path: Path, progress: QProgressDialog) -> Generator[None, None, str]:
        """One step at a time, so that the window stays responsive; returns the message for the end."""
        from attnscope.figures.export import HandoutPage, handout_bytes  # not before the first paint

        kept, before = self._files.kept, self._files.take()
        views, pages = kept.views, []
        progress.setMaximum(len(views))
        try:
            for k, view in enumerate(views):
                progress.setLabelText(f"View {k + 1} of {len(views)}: {plain_text(view.name)}")
                progress.setValue(k)
                kept.go(k)
                yield from self._settled()
                if progress.wasCanceled():
                    return ""
                note = view.note if kept.is_shown else "\n".join(filter(None, (_NOT_SHOWN, view.note)))
                shown = self._shown() if kept.is_shown else None
                if isinstance(shown, FigureSpec) and shown.title == view.name:
                    shown = dataclasses.replace(shown, title="")
                pages.append(HandoutPage(name=view.name, shown=shown, note=note))
            replace_file(path, handout_bytes(pages, path.stem))
            return f"The handout of {plural(len(pages), 'view')} is saved in {path}."
        finally:
            progress.close()
            progress.deleteLater()
            if before is not None:
                self._files.show(before, "go back from the handout")

    def _settled(self) -> Iterator[None]:
        """Wait until a view is restored, or for so long that it will not be."""
        session, n_calm = self._session, 0
        for _ in range(_MOST_TICKS):
            yield
            while session.opening.busy is not None:
                yield
            is_calm = self._files.awaited.saved is None and not session.tracing.is_stale
            n_calm = n_calm + 1 if is_calm and self._is_drawn() else 0
            if n_calm >= _CALM_TICKS:
                return

    def _is_drawn(self) -> bool:
        """Whether the figure of the page has arrived; some pages have none."""
        page = self._view.page
        if page == "heads":
            return not self._measuring.is_running
        wanted = "inside" if self._view.view == "inside" else "head"
        name = _FIGURE_OF.get(page, wanted if page == "explore" else "")
        return not name or name in self._pages.offered_figures()

    def _shown(self) -> FigureSpec | QImage:
        """The current figure, or a picture of the page if it has none."""
        if self._view.page in ("explore", *_FIGURE_OF):
            offered = self._pages.offered_figures()
            name = current_figure(self._view, offered)
            if name is not None:
                return offered[name]
        theme = theme_of(self._window)
        if theme is not LIGHT:
            self._dress(LIGHT)
        picture = self._pages.grab().toImage()
        if theme is not LIGHT:
            self._dress(theme)
        return picture


class Openings:
    """Openings in one part of the window of things known to another."""

    def __init__(self, session: Session, training: TrainingState, view: ViewState, recents: Recents) -> None:
        self._session, self._training, self._view, self._recents = session, training, view, recents

    def models(self) -> tuple[str, ...]:
        """Models for a side of a comparison: demos, recent ones, checkpoints of the run."""
        found = self._training.watch.replay.checkpoints
        checkpoints = [checkpoint.folder for checkpoint in found if checkpoint.has_model][-8:]
        demos, recent = self._session.demo_models, self._recents.models[:6]
        return tuple(dict.fromkeys((*demos, *recent, *reversed(checkpoints))))

    def open_run(self, folder: str) -> None:
        """Show a run on the Train page, and open its newest checkpoint."""
        self._training.reading.open(folder)
        self._session.opening.load(folder)
        self._view.show_page("train")

    def open_checkpoint(self, folder: str) -> None:
        """Show the watched sentence at a checkpoint."""
        watch = self._training.watch
        sample = Sample(text=watch.text, target=watch.target) if watch.text.strip() else None
        self._session.opening.load(folder, sample=sample, head=watch.head)
        self._view.show_page("explore")

    def train_further(self) -> None:
        """Open a recipe that starts from the open model on the Train page."""
        model = self._session.model
        why = why_not_finetune(model)
        if model is None or why:
            self._session.notices.say(why)
            return
        self._training.take_recipe(finetune_recipe(model), finetune_name(model))
        if self._training.place.holds_run:
            self._training.place.take_fresh()
        self._view.show_page("train")


class Commands:
    """The handlers of the actions; `window` is the parent of dialogs."""

    def __init__(
        self,
        session: Session,
        view: ViewState,
        window: QWidget,
        *,
        open_run: Callable[[str], None],
        edit_text: Callable[[], None],
        pruning: PruningState,
        choose_folder: ChooseFolder = ask_folder,
        choose_new_folder: ChooseFolder = ask_new_folder,
    ) -> None:
        self._session, self._view, self._window = session, view, window
        self._open_run, self._edit_text, self._pruning = open_run, edit_text, pruning
        self._choose_folder, self._choose_new_folder = choose_folder, choose_new_folder

    def handlers(self) -> Mapping[str, Callable[[], None]]:
        """One handler for each action of the table."""
        session = self._session
        return {
            "open-model": self.open_model,
            "open-run": self.open_run,
            "save-model": self.save_model,
            "reload-model": self.reload_model,
            "remove-heads": self.remove_heads,
            "quit": self._quit,
            "edit-text": self._edit_text,
            "toggle-heads": self._toggle_heads,
            "prune-all-but": self._prune_all_but,
            "invert": session.head_changes.invert_gates,
            "reset": session.head_changes.reset_gates,
            "page-explore": self._turn_to("explore"),
            "page-positions": self._turn_to("positions"),
            "page-heads": self._turn_to("heads"),
            "page-train": self._turn_to("train"),
            "page-labs": self._turn_to("labs"),
            "stack-1": self._show_stack(0),
            "stack-2": self._show_stack(1),
            "stack-3": self._show_stack(2),
            "heatmap": self._show_heatmap,
            "lines": self._show_lines,
            "picture": self._show_on_picture,
            "inside": self._show_inside,
            "enlarge": self._enlarge,
            "shortcuts": self.show_shortcuts,
            "about": self.show_about,
            "dismiss": self._dismiss,
            "present": self._present,
        }

    def open_model(self) -> None:
        """Ask for a model folder and open it."""
        folder = self._choose_folder(self._window, "Open model folder", str(Path.home()))
        if folder:
            open_and_explore(self._session, self._view, folder)

    def open_run(self) -> None:
        """Ask for a run folder; show its curves and open its newest checkpoint."""
        folder = self._choose_folder(self._window, "Open training run", str(paths.runs_folder()))
        if folder:
            self._open_run(folder)

    def save_model(self) -> None:
        """Ask for a folder and save the open model there."""
        if self._session.model is None:
            return
        folder = self._choose_new_folder(self._window, "Save model as", _new_place(self._session.model.name))
        if folder:
            self._session.save_model(folder)

    def remove_heads(self) -> None:
        """Open the dialog that makes a smaller model without the heads that are off."""
        session, pruning = self._session, self._pruning
        if session.model is None or not session.gates.off():
            session.notices.say("No head is off. Switch heads off first, then remove them.")
            return
        pruning.begin(session.gates, session.text, session.target)
        dialog = PruneDialog(
            pruning,
            name=session.model.name,
            suggested=_new_place(f"{session.model.name}-smaller"),
            choose_folder=self._choose_new_folder,
            parent=self._window,
        )
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.open_wanted.connect(self._on_open_wanted)
        dialog.open()

    def reload_model(self) -> None:
        """Open the files of the open model again."""
        if self._session.model is not None:
            self._session.opening.load(self._session.model.source)

    def show_shortcuts(self) -> None:
        """Open the sheet of shortcuts."""
        sheet = ShortcutsSheet(self._window.findChildren(QAction), self._window)
        sheet.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        sheet.open()

    def show_about(self) -> None:
        """Show the program's name and version."""
        box = QMessageBox(self._window)
        box.setWindowTitle("About AttnScope")
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setText(
            f"AttnScope {program_version()}\n\n"
            "See attention: every layer and head of a Transformer, live.\nMIT licence."
        )
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.open()

    def _on_open_wanted(self, folder: str) -> None:
        open_and_explore(self._session, self._view, folder)

    def _quit(self) -> None:
        self._window.close()

    def _toggle_heads(self) -> None:
        self._session.head_changes.toggle_gates(self._session.selection)

    def _prune_all_but(self) -> None:
        self._session.head_changes.prune_all_but(self._session.selection)

    def _turn_to(self, page: Page) -> Callable[[], None]:
        view = self._view
        return lambda: view.show_page(page)

    def _show_stack(self, index: int) -> Callable[[], None]:
        session = self._session

        def run() -> None:
            if index < len(session.stacks):
                session.select_stack(session.stacks[index])

        return run

    def _show_head_as(self, kind: HeadViewKind) -> None:
        self._view.show_page("explore")
        self._view.show_view(kind)

    def _show_heatmap(self) -> None:
        self._show_head_as("heatmap")

    def _show_lines(self) -> None:
        self._show_head_as("lines")

    def _show_on_picture(self) -> None:
        model = self._session.model
        if model is not None and model.reads == "picture":
            self._show_head_as("picture")
        else:
            self._session.notices.say("Only a vision model's attention can be overlaid on a picture.")

    def _show_inside(self) -> None:
        self._show_head_as("inside")

    def _enlarge(self) -> None:
        self._view.enlarge(not self._view.is_enlarged)

    def _present(self) -> None:
        self._view.present(not self._view.is_presenting)
        if self._view.is_presenting:
            self._session.notices.say("Presenting. F11 or Esc brings everything back.", about=PRESENTING)

    def _dismiss(self) -> None:
        if self._view.is_presenting:
            self._view.present(False)
        elif self._session.notices.shown:
            self._session.notices.dismiss()
        else:
            self._view.enlarge(False)


MAX_CLIPBOARD_PIXELS = 16_000_000
MAX_SVG_BYTES = 8_000_000
_MARK = "application/x-attnscope-figure"


def mime_data(spec: FigureSpec) -> QMimeData:
    """The figure as an image and as SVG; the resolution is lowered until the image is small enough."""
    from attnscope.figures.export import image, render  # the window starts without them

    fitting = capped(spec)
    data = QMimeData()
    data.setData(_MARK, QByteArray(b"1"))
    data.setImageData(image(fitting))
    svg = render(fitting, "svg")
    if len(svg) <= MAX_SVG_BYTES:
        data.setData("image/svg+xml", QByteArray(svg))
    return data


def capped(spec: FigureSpec) -> FigureSpec:
    """The figure at a resolution that fits the clipboard."""
    width, height = spec.size_in_dots
    if width * height <= MAX_CLIPBOARD_PIXELS:
        return spec
    dpi = math.floor(spec.dpi * math.sqrt(MAX_CLIPBOARD_PIXELS / (width * height)))
    return dataclasses.replace(spec, dpi=max(MIN_DPI, dpi))


def to_clipboard(spec: FigureSpec) -> None:
    """Copy the figure to the clipboard; raises UserError if it cannot be made."""
    QGuiApplication.clipboard().setMimeData(mime_data(spec))


def release_clipboard() -> None:
    """Take our own figure off the clipboard before the program ends: Qt would crash on exit."""
    clipboard = QGuiApplication.clipboard()
    held = clipboard.mimeData()
    if held is not None and held.hasFormat(_MARK):  # ownsClipboard() is always False on some platforms
        clipboard.clear()
