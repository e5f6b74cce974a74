"""Labs: small live experiments; each is a table of controls and a picture."""

from typing import TYPE_CHECKING

from attnscope.doors import door_of

# mypy: implicit-reexport
if TYPE_CHECKING:
    from attnscope.widgets.labs.cells_and_tables import TextTable
    from attnscope.widgets.labs.lab_view import ControlRow, LabView
    from attnscope.widgets.labs.measured import CostMeter, MeasuringThread, make_cost_view, make_heads_view
    from attnscope.widgets.labs.page import LabsPage, lab_offers, make_lab
    from attnscope.widgets.labs.tokenizers_view import MergesView, TokenizersView
else:
    __getattr__, __dir__ = door_of(__name__)
