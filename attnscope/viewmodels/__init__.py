"""State of each view: pure Python, no Qt, no torch.

View models hold what is shown, post requests to the worker and take its replies.
"""

from typing import TYPE_CHECKING

from attnscope.doors import door_of

# mypy: implicit-reexport
if TYPE_CHECKING:
    from attnscope.viewmodels.help_pages import *
    from attnscope.viewmodels.palette import Item, find, match_item
    from attnscope.viewmodels.query import Job, Query, Requests
    from attnscope.viewmodels.states import *
    from attnscope.viewmodels.view_state import *
else:
    __getattr__, __dir__ = door_of(__name__)
