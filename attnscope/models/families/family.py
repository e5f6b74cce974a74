"""What a family of models is to the whole program; `heads.py` and `ours.py` say what more one may be."""

from typing import ClassVar

from attnscope.schemes.registry import Scheme


class Family(Scheme):
    """One kind of model; `name` is the model_type of its config.json."""

    alike: ClassVar[tuple[str, ...]] = ()
    """Other kinds whose last norm goes by the same name; nothing more is known of them."""
    last_norm: ClassVar[str | None] = None
    """The last norm of the stack that predicts; empty where each layer ends with its own, None if unknown."""
    not_a_map: ClassVar[str] = ""
    """Why its weights are no map of tokens on tokens; empty where they are."""
    vision_class: ClassVar[str] = ""
    """The library's class for the half that sees, of a model that reads pictures together with text."""
    predicts_words: ClassVar[bool] = True
    """Whether the head that it was trained with at first does."""
