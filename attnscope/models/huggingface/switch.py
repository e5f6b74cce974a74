"""Which attention a model of the library uses, changed and given back.

The library keeps the name of the attention in the configuration of each part of a model and looks it
up at every call.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from attnscope.errors import UserError

_PLAIN = ("sdpa", "eager")
_FIELD = "_attn_implementation_internal"


class AttentionSwitch:
    """The attention of every part of one model."""

    def __init__(self, model: Any) -> None:
        self._is_fused = bool(getattr(model, "_supports_sdpa", False))
        self._own = [(config, getattr(config, _FIELD)) for config in _configs(model)]
        if not self._own:
            raise UserError(
                f"{type(model).__name__} does not say which attention it uses.",
                expected="a model of the transformers library, version 5.3 or later",
                action="This model cannot be opened.",
            )

    def set(self, name: str) -> None:
        """Let every part use the attention of this name."""
        for config, _ in self._own:
            setattr(config, _FIELD, name)

    def restore(self) -> None:
        """Let every part use what it used at first."""
        for config, own in self._own:
            setattr(config, _FIELD, own)

    @contextmanager
    def at_reference(self) -> Iterator[None]:
        """The model's own attention; where that needs a special device, the library's usual one.

        Fused attention of older versions leaves soft-caps out without a word: there the plain one is right.
        """
        usual = "sdpa" if self._is_fused else "eager"
        for config, own in self._own:
            is_capped = getattr(config, "attn_logit_softcapping", None) is not None
            setattr(config, _FIELD, "eager" if is_capped else own if own in _PLAIN else usual)
        try:
            yield
        finally:
            self.restore()


def _configs(model: Any) -> list[Any]:
    """Every configuration that a module of the model holds, and their parts, each once."""
    waiting = [module.config for module in model.modules() if hasattr(module, "config")]
    found: dict[int, Any] = {}
    while waiting:
        config = waiting.pop()
        if id(config) in found or not hasattr(config, _FIELD):
            continue
        found[id(config)] = config
        parts = (getattr(config, name, None) for name in getattr(config, "sub_configs", {}))
        waiting.extend(part for part in parts if part is not None)
    return list(found.values())
