"""Reading a foreign configuration key by key: what our models cannot be is named and refused."""

from collections.abc import Mapping
from typing import Any

from attnscope.errors import LoadError
from attnscope.nn.config import Activation

_ACTIVATIONS: Mapping[str, Activation] = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "relu": "relu",
    "silu": "swish",
    "swish": "swish",
}


class Choices:
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
        """A number."""
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
            f"The model of {self.where} cannot be taken over: {reason}.",
            kind="architecture",
            expected=expected,
            action="Open it to look at it, or go on from another model.",
        )
