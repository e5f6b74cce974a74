"""What the rest of the program calls a model, and opening and saving one.

Must not import anything of analysis, training or the window.
"""

from attnscope.models.checkpoint import ModelCard, read_model_folder, write_model_folder
from attnscope.models.cost import BatchShape, activation_bytes, count_cost, n_turns_of, own_cost, rows_at_once
from attnscope.models.inputs import Inputs
from attnscope.models.model import Look, Model
from attnscope.models.opening import demo_models, load
from attnscope.models.own import OwnNetwork
from attnscope.nn.machine import choose_device

__all__ = [
    "BatchShape",
    "Inputs",
    "Look",
    "Model",
    "ModelCard",
    "OwnNetwork",
    "activation_bytes",
    "choose_device",
    "count_cost",
    "demo_models",
    "load",
    "n_turns_of",
    "own_cost",
    "read_model_folder",
    "rows_at_once",
    "write_model_folder",
]
