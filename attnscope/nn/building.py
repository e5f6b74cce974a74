"""From a configuration to the network it describes, whichever body that has."""

import torch

from attnscope.nn.config import ModelConfig
from attnscope.nn.own_module import OwnModule
from attnscope.nn.recurrent import Recurrent
from attnscope.nn.transformer import Transformer
from attnscope.nn.weights import fill_weights


def unfilled_own(config: ModelConfig) -> OwnModule:
    """The network on the device "meta": without any memory for its weights."""
    with torch.device("meta"):
        return Recurrent(config) if config.is_recurrent else Transformer(config)


def empty_own(config: ModelConfig, device: str | torch.device = "cpu") -> OwnModule:
    """A network whose weights are whatever the memory held: for those who load every one of them next."""
    module = unfilled_own(config)
    module.take_memory(device)
    return module


def build_own(config: ModelConfig, seed: int) -> OwnModule:
    """A network ready to be trained, in float32 on the CPU; equal seeds give equal weights.

    The first weights are those of `fill_weights`; the program's own random numbers are not touched.
    """
    module = empty_own(config)
    fill_weights(module, config, torch.Generator(device="cpu").manual_seed(seed))
    return module
