"""The Heads page."""

from typing import TYPE_CHECKING

from attnscope.doors import door_of

# mypy: implicit-reexport
if TYPE_CHECKING:
    from attnscope.widgets.heads.page import SHARE_ROLE, HeadsPage, bar_shares
    from attnscope.widgets.heads.pruning import PruneDialog, PruningPage
    from attnscope.widgets.heads.pruning_view import metric_words, taken_words
    from attnscope.widgets.heads.tabs import AlikePage, WeightsPage
else:
    __getattr__, __dir__ = door_of(__name__)
