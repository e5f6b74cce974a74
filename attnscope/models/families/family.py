"""What a family of models is to the whole program; `heads.py` and `ours.py` say what more one may be."""

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from attnscope.schemes.registry import Scheme

Seen = list[Any]
"""What hooks of a family saw in one pass, in the order of the layers."""


class Handle(Protocol):
    """Something that lasts until it is removed, such as a hook."""

    def remove(self) -> None:
        """End it."""


def own_setting(model: Any, key: str) -> Any:
    """What the key "attnscope" of a model's config.json says of reading it; None where it says nothing."""
    settings = getattr(model.config, "attnscope", None)
    return settings.get(key) if isinstance(settings, Mapping) else None


class Family(Scheme):
    """One kind of model; `name` is the model_type of its config.json."""

    alike: ClassVar[tuple[str, ...]] = ()
    """Other kinds whose last norm goes by the same name; nothing more is known of them."""
    last_norm: ClassVar[str | None] = None
    """The last norm of the stack that predicts; empty where each layer ends with its own, None if unknown."""
    not_a_map: ClassVar[str] = ""
    """Why its weights are no map of tokens on tokens; empty where they are."""
    has_empty_rows: ClassVar[bool] = False
    """Whether there are tokens without a row of weights of their own, in some layers."""
    fails_when_short: ClassVar[bool] = False
    """Whether the library's own code fails on some short texts."""
    vision_class: ClassVar[str] = ""
    """The library's class for the half that sees, of a model that reads pictures together with text."""
    predicts_words: ClassVar[bool] = True
    """Whether the head that it was trained with at first does."""

    def prepare(self, model: Any) -> str:
        """Make a model of the library ready, once, before its first pass; a note for people."""
        return ""

    def watch(self, model: Any, seen: Seen) -> list[Handle]:
        """Hooks for what an output does not tell of its weights: each pass they put it into `seen`."""
        return []

    def laid_out(
        self, output: Mapping[str, Any], n_tokens: int, *, config: Any, seen: Seen
    ) -> Mapping[str, Any]:
        """An output with `output_attentions`, its weights token by token; as it is where they already are.

        `n_tokens` is how many tokens were given, 0 where that is not known; `config` is the model's, `seen`
        what `watch` saw in the pass.
        """
        return output

    def most_tokens(self, values: Mapping[str, Any]) -> int | None:
        """The longest text that is read as its weights are shown, of a config.json; None: any."""
        return None
