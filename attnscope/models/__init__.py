"""What the rest of the program calls a model, and opening and saving one.

Must not import anything of analysis, training or the window.
"""

from attnscope.models.checkpoint import ModelCard, read_model_folder, write_model_folder
from attnscope.models.inputs import Inputs
from attnscope.models.model import Look, Model
from attnscope.models.opening import demo_models, load
from attnscope.nn.machine import choose_device

__all__ = [
    "Inputs",
    "Look",
    "Model",
    "ModelCard",
    "choose_device",
    "demo_models",
    "load",
    "read_model_folder",
    "write_model_folder",
]
