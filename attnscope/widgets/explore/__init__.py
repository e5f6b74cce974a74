"""The Explore page: text, grid, one head, lines."""

from typing import TYPE_CHECKING

from attnscope.doors import door_of

# mypy: implicit-reexport
if TYPE_CHECKING:
    from attnscope.widgets.explore.ask_panel import AnswerView, AskPanel, ask_offers
    from attnscope.widgets.explore.beam_view import place_nodes
    from attnscope.widgets.explore.generation_panel import *
    from attnscope.widgets.explore.grid import GridPanel, GridView, switch_rect
    from attnscope.widgets.explore.head_panel import AlignmentBar, HeadPanel, head_menu
    from attnscope.widgets.explore.head_view import HeadView, LinesView, PictureView
    from attnscope.widgets.explore.inspector import (
        ChangeList,
        GateControl,
        HeadInspector,
        MeasureRow,
        names_px,
    )
    from attnscope.widgets.explore.mask_dialog import MaskDialog
    from attnscope.widgets.explore.output_panel import CandidateTable, DifferenceLabel, OutputPanel
    from attnscope.widgets.explore.page import ExplorePage
    from attnscope.widgets.explore.street_map import StreetMap, map_title, reading_words
    from attnscope.widgets.explore.text_bar import *
else:
    __getattr__, __dir__ = door_of(__name__)
