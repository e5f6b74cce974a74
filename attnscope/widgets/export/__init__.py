"""Exporting figures."""

from typing import TYPE_CHECKING

from attnscope.doors import door_of

# mypy: implicit-reexport
if TYPE_CHECKING:
    from attnscope.widgets.export.dialog import ExportChoices, ExportDialog, KeptChoices
    from attnscope.widgets.export.figures_offered import current_figure, export_one, offered_figures
else:
    __getattr__, __dir__ = door_of(__name__)
