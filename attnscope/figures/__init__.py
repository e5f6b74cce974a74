"""Painting with Qt, for screen and file alike, and export. Knows records; never torch."""

from typing import TYPE_CHECKING

from attnscope.doors import door_of

# mypy: implicit-reexport
if TYPE_CHECKING:
    from attnscope.figures.cause_maps import attribution_cells, influence_cells, reads_cells, table_cells
    from attnscope.figures.cells_painting import layout_cells, paint_cells
    from attnscope.figures.changes_painting import by_change, changes_layout, paint_changes
    from attnscope.figures.chart_painting import *
    from attnscope.figures.charts import *
    from attnscope.figures.colours import *
    from attnscope.figures.export import is_right_to_left, mended_texts, render, save, suggested_name
    from attnscope.figures.figure import FigureOptions, joint_caption, telling_titles
    from attnscope.figures.figure_file import *
    from attnscope.figures.file_names import ENDINGS, Format, target_of
    from attnscope.figures.formula_painting import *
    from attnscope.figures.grid_painting import *
    from attnscope.figures.html_page import script_json
    from attnscope.figures.map_painting import *
    from attnscope.figures.page import *
    from attnscope.figures.raster import *
    from attnscope.figures.spec import *
    from attnscope.figures.style import *
    from attnscope.figures.tiles_painting import MapPart, part_layout, part_rect
    from attnscope.figures.token_axis import *
    from attnscope.figures.words_and_numbers import *
else:
    __getattr__, __dir__ = door_of(__name__)
