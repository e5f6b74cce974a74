"""Kinds of models of the Hugging Face format known by name, each family in its own file.

Most kinds need nothing and are not here: they open by the library's attention interface, and where their
parts are is found out. What needs a name: the last norm for the logit lens, the matrices of the heads for
removing some for good, our tensors out of theirs for fine-tuning, and what cannot be opened as it stands.
"""

from typing import TYPE_CHECKING

from attnscope.doors import door_of
from attnscope.models.families.family import Family
from attnscope.schemes import schemes_of

# mypy: implicit-reexport
if TYPE_CHECKING:
    from attnscope.models.families.family import *
    from attnscope.models.families.longformer import lay_windows
else:
    __getattr__, __dir__ = door_of(__name__)

__all__ = ["FAMILIES", "Family", "family_named", "last_norms"]

FAMILIES = schemes_of(__name__, Family)
"""The families by the model_type of config.json."""


def family_named(kind: str) -> Family:
    """Family of a kind of model; one with no special treatment if the kind is unknown."""
    return FAMILIES.get(kind) or Family()


def last_norms() -> dict[str, str]:
    """`Family.last_norm` of every kind of model for which it is known."""
    known = [(family, family.last_norm) for family in FAMILIES.values()]
    return {kind: norm for family, norm in known if norm is not None for kind in (family.name, *family.alike)}
