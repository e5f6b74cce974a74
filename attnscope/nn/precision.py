"""Where double precision exists, and how to have it everywhere.

Graphics devices of Apple know no float64: making such a tensor there raises TypeError. Must not import
anything of the program.
"""

import torch
from torch import Tensor

_WITH_DOUBLE = ("cpu", "cuda")


def has_double(device: torch.device) -> bool:
    """Whether tensors of float64 can be made on the device."""
    return device.type in _WITH_DOUBLE


def exact(tensor: Tensor) -> Tensor:
    """The tensor in float64, on the CPU where its device has no double precision."""
    return (tensor if has_double(tensor.device) else tensor.cpu()).double()
