"""A figure file that somebody opens: its numbers in the export dialog, its question in the window."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from attnscope.figures.figure_file import SavedFigure, read_figure_file
from attnscope.viewmodels.session.file import LookSaved, SavedSession
from attnscope.viewmodels.session.history import Setting

LABEL = "open figure"


def open_figure_file(
    path: Path, show: Callable[[SavedSession, str], None], parent: QWidget, tell: Callable[[str], None]
) -> None:
    """Show what the file holds; raises LoadError for what is no figure file.

    Numbers stand in the export dialog, to be saved in another size, look or format; `tell` says where they
    were written. Of a question `show` brings model, text, heads and look back, and Export draws it.
    """
    kept = read_figure_file(path)
    if isinstance(kept, SavedFigure):
        show(session_of(kept), LABEL)
        return
    from attnscope.widgets.export.dialog import ExportDialog  # not before the first paint

    dialog = ExportDialog(
        {kept.view: kept}, kept.view, folder=str(path.absolute().parent), keeps_panels=True, parent=parent
    )
    dialog.setWindowTitle(f"Export figure – {path.name}")
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.exported.connect(tell)
    dialog.open()


def session_of(saved: SavedFigure) -> SavedSession:
    """What the window shows of the figure's question."""
    origin, style = saved.origin, saved.style
    return SavedSession(
        source=origin.source,
        model=origin.model,
        sha256=origin.sha256,
        setting=Setting(
            gates=saved.gates,
            selection=saved.heads,
            aspect=origin.aspect,
            text=origin.text,
            target=origin.target,
            interventions=saved.interventions,
        ),
        look=LookSaved(
            view="lines" if saved.view == "lines" else "heatmap",
            colour_map=style.colour_map,
            scale=style.scale,
            least_weight=style.least_weight,
            n_strongest=style.n_strongest,
        ),
    )
