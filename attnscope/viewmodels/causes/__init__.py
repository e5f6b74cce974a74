"""States of the panels on the causes of an output and on the inside of a head."""

from typing import TYPE_CHECKING

from attnscope.doors import door_of

# mypy: implicit-reexport
if TYPE_CHECKING:
    from attnscope.viewmodels.causes.across_layers import *
    from attnscope.viewmodels.causes.attribution_and_patching import *
    from attnscope.viewmodels.causes.inside import STEPS, rest_words, step_words, title_words
else:
    __getattr__, __dir__ = door_of(__name__)
