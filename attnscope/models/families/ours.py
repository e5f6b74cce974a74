"""How a family's configuration and tensors make a model of ours: what ours cannot be is named and refused."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from attnscope.errors import LoadError
from attnscope.models.families.family import Family
from attnscope.nn.config import Activation, ModelConfig

Tensors = Mapping[str, Tensor]
Block = Mapping[str, str | tuple[str, ...]]
"""The layers of one block: our name, and theirs (several are joined)."""
_ACTIVATIONS: Mapping[str, Activation] = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "relu": "relu",
    "silu": "swish",
    "swish": "swish",
}


class LibraryConfig:
    """The keys of one config.json, with the library's defaults for those that are not written."""

    def __init__(self, values: Mapping[str, Any], defaults: Mapping[str, Any], where: str) -> None:
        self._values, self._defaults, self.where = values, defaults, where

    def get(self, key: str) -> Any:
        """The value of a key, or its default."""
        found = self._values.get(key)
        return self._defaults.get(key) if found is None else found

    def count(self, key: str) -> int:
        """A whole number above 0."""
        value = self.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self.refused(f"{key} is {value!r}", "a whole number above 0")
        return value

    def real(self, key: str) -> float:
        value = self.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.refused(f"{key} is {value!r}", "a number")
        return float(value)

    def activation(self, key: str) -> Activation:
        """What stands between the two layers of the feed-forward part."""
        value = self.get(key)
        if not isinstance(value, str) or value not in _ACTIVATIONS:
            raise self.refused(f"{key} is {value!r}", "one of " + ", ".join(_ACTIVATIONS))
        return _ACTIVATIONS[value]

    def require(self, **wanted: object) -> None:
        """Raise LoadError unless each key has the one value that our models can have."""
        for key, value in wanted.items():
            found = self.get(key)
            if found != value:
                raise self.refused(f"{key} is {found!r}", repr(value))

    def refused(self, reason: str, expected: str) -> LoadError:
        """What is said of a model that cannot be taken over."""
        return LoadError(
            f"The model of {self.where} cannot be trained further: {reason}.",
            kind="architecture",
            expected=expected,
            action="Open it to look at it, or start from another model.",
        )


class AdoptableFamily(Family, ABC):
    """A family that our models can be."""

    prefix: ClassVar[str]
    """What may stand before every name of its body."""
    defaults: ClassVar[Mapping[str, Any]]
    """The library's, for keys that config.json does not write."""

    @abstractmethod
    def config(self, choices: LibraryConfig, source: Tensors) -> dict[str, Any]:
        """The keys of our configuration but for the vocabulary; raises LoadError for what ours cannot be."""

    @abstractmethod
    def state(self, source: Tensors, config: ModelConfig) -> dict[str, Tensor]:
        """Our tensors by name."""


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

    def take_head(self, transform: str, norm: str, bias: str) -> None:
        """The output layer of an encoder; `bias` is a tensor."""
        self.take("head.transform", transform)
        self.take("head.norm", norm)
        self.state["head.bias"] = self.source[bias]

    def take_block(self, ours: str, theirs: str, parts: Mapping[str, str | tuple[str, ...]]) -> None:
        """The layers of one block, by our name and theirs (several are joined)."""
        for name, found in parts.items():
            names = (found,) if isinstance(found, str) else found
            self.take(f"{ours}.{name}", *(f"{theirs}.{part}" for part in names))
