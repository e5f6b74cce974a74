"""Objectives, a file each: `OBJECTIVES` has them by name, in the order in which messages list them."""

from attnscope.schemes import schemes_of
from attnscope.schemes.objectives.objective import NeededKeys, ObjectiveScheme

__all__ = ["OBJECTIVES", "NeededKeys", "ObjectiveScheme", "usual_objective"]

OBJECTIVES = schemes_of(__name__, ObjectiveScheme)


def usual_objective(form: str) -> str:
    """The default objective for a form of model, without labels."""
    return next(one.name for one in OBJECTIVES.values() if one.forms[0] == form and not one.labels)
