"""Tiny vision models of Hugging Face's library that tell classes, and two pictures."""

from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import hf_tiny
import transformers as hf
from hf_folders import save_folder, save_picture

from attnscope.models import Model, load

VISION = {**hf_tiny.VISION, "image_size": 12, "num_labels": 4}
"""Nine patches."""
_PLAIN = {name: value for name, value in VISION.items() if name != "intermediate_size"}
KINDS = ("vit", "deit", "beit", "dinov2", "ijepa")


def build(kind: str) -> Any:
    """One model by its kind, every parameter from a ramp."""
    match kind:
        case "vit":
            model = hf.ViTForImageClassification(hf.ViTConfig(**VISION))
        case "deit":
            model = hf.DeiTForImageClassificationWithTeacher(hf.DeiTConfig(**VISION))
        case "beit":
            config = hf.BeitConfig(**VISION, use_relative_position_bias=True, use_mean_pooling=True)
            model = hf.BeitForImageClassification(config)
        case "dinov2":
            model = hf.Dinov2ForImageClassification(hf.Dinov2Config(**_PLAIN, mlp_ratio=2))
        case "ijepa":
            model = hf.IJepaForImageClassification(hf.IJepaConfig(**VISION))
        case "bare":
            model = hf.ViTModel(hf.ViTConfig(**VISION))
        case _:
            raise ValueError(kind)
    model.eval()
    hf_tiny.fill(model)
    return model


@cache
def opened(kind: str) -> Model:
    """The model as people open it."""
    return load(save_folder(Path(mkdtemp()) / kind, build(kind), None), device="cpu")


@cache
def picture(height: int = 12) -> str:
    """The path of a picture; another height is another picture."""
    return save_picture(Path(mkdtemp()) / f"{height}.png", height=height, width=12)
