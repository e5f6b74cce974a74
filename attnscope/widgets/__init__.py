"""The window: Qt widgets that show view models and report what the user wants."""

from typing import TYPE_CHECKING

from attnscope.doors import door_of

# mypy: implicit-reexport
if TYPE_CHECKING:
    from attnscope.widgets.actions import ACTIONS, has_two_texts
    from attnscope.widgets.charts import LabPlot
    from attnscope.widgets.command_palette import choice_offers, head_offers
    from attnscope.widgets.dialogs import FolderDialog, ask_new_folder, dialog_of
    from attnscope.widgets.form_parts import *
    from attnscope.widgets.labels import ElidedLabel, PlainLabel, plain_tooltip, when, when_seen
    from attnscope.widgets.line_plot import Line, LinePlot, spread
    from attnscope.widgets.map_widget import StateCard
    from attnscope.widgets.theme import Dressed, apply_theme, palette_for, stylesheet, theme_of
    from attnscope.widgets.token_chips import *
else:
    __getattr__, __dir__ = door_of(__name__)
