"""The state of the Heads page: measures, similarity, pruning."""

from typing import TYPE_CHECKING

from attnscope.doors import door_of

# mypy: implicit-reexport
if TYPE_CHECKING:
    from attnscope.viewmodels.heads.pruning import *
    from attnscope.viewmodels.heads.tabs import n_dimensions, readable_first, sameness_words
else:
    __getattr__, __dir__ = door_of(__name__)
