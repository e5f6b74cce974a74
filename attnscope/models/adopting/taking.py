"""What a family of foreign models is, and taking over the tensors of one model layer by layer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnscope.models.adopting.choices import Choices
from attnscope.nn.config import ModelConfig

Tensors = Mapping[str, Tensor]
Block = Mapping[str, str | tuple[str, ...]]
"""The layers of one block: our name, and theirs (several are joined)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One kind of foreign model.

    `prefix` may stand before every name of its body, `defaults` are the library's. `config` gives the keys
    of ours but for the vocabulary, `state` our tensors by name.
    """

    prefix: str
    defaults: Mapping[str, Any]
    config: Callable[[Choices, Tensors], dict[str, Any]]
    state: Callable[[Tensors, ModelConfig], dict[str, Tensor]]


def _joined(source: Tensors, names: tuple[str, ...], kind: str) -> Tensor:
    return torch.cat([source[f"{name}.{kind}"] for name in names])


class Taking:
    """Collects our tensors from those of one model."""

    def __init__(self, source: Tensors) -> None:
        self.source = source
        self.state: dict[str, Tensor] = {}

    def take(self, ours: str, *theirs: str) -> None:
        """Weight and bias of one layer, of several of theirs one below the other."""
        for kind in ("weight", "bias"):
            if f"{theirs[0]}.{kind}" in self.source:
                self.state[f"{ours}.{kind}"] = _joined(self.source, theirs, kind)

    def take_block(self, ours: str, theirs: str, parts: Mapping[str, str | tuple[str, ...]]) -> None:
        """The layers of one block, by our name and theirs (several are joined)."""
        for name, found in parts.items():
            names = (found,) if isinstance(found, str) else found
            self.take(f"{ours}.{name}", *(f"{theirs}.{part}" for part in names))
