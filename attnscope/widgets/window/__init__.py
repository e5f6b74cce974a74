"""The window itself: bars, commands, files."""

from typing import TYPE_CHECKING

from attnscope.doors import door_of

# mypy: implicit-reexport
if TYPE_CHECKING:
    from attnscope.widgets.window.bars import StatusBar, WorkLine
    from attnscope.widgets.window.commands import Commands, FigureCommands
    from attnscope.widgets.window.edge_panels import KeptLine, RightEdge
    from attnscope.widgets.window.main_window import *
    from attnscope.widgets.window.pages import usable_geometry
    from attnscope.widgets.window.places import RichText, html_of, with_numbers
    from attnscope.widgets.window.session_files import *
    from attnscope.widgets.window.shelf_dialog import COLUMNS, ShelfDialog
    from attnscope.widgets.window.workspace import Autosave
else:
    __getattr__, __dir__ = door_of(__name__)
