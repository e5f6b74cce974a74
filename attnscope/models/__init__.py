"""The program's notion of a model, and opening and saving one.

Must not import anything of analysis, training or the window.
"""

from typing import TYPE_CHECKING

from attnscope.doors import door_of

# mypy: implicit-reexport
if TYPE_CHECKING:
    from attnscope.models.checkpoint import *
    from attnscope.models.cost import *
    from attnscope.models.inputs import Inputs, own_target, patch_tokens, picture_of_tokens
    from attnscope.models.model import Look, Model
    from attnscope.models.network import *
    from attnscope.models.opening import *
    from attnscope.models.own import OwnNetwork
    from attnscope.models.pruning import *
    from attnscope.nn.machine import choose_device
else:
    __getattr__, __dir__ = door_of(__name__)
