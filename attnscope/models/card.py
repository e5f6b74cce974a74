"""What a model folder says about its model besides the weights."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from attnscope.errors import LoadError
from attnscope.records.models import Form

Objective = Literal["causal", "masked", "translation"]
OBJECTIVES: tuple[Objective, ...] = get_args(Objective)
OBJECTIVE_OF_FORM: Mapping[Form, Objective] = {
    "decoder": "causal",
    "encoder": "masked",
    "encoder-decoder": "translation",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """The model's name, what it learned to do, how it was trained, and its card in Markdown.

    `training` holds whatever the recipe's author wants to remember, as JSON can hold it; the key
    `task` names the sample sentences to offer.
    """

    name: str
    objective: Objective
    training: Mapping[str, object] = field(default_factory=dict)
    text: str = ""


def check_objective(value: object, form: Form, where: str) -> Objective:
    """`value` when it is the objective of a model of this form; raises LoadError."""
    for objective in OBJECTIVES:
        if objective == value and OBJECTIVE_OF_FORM[form] == objective:
            return objective
    raise LoadError(
        f"{where} names the objective {str(value)[:40]!r} for a model of the form {form}.",
        kind="config",
        expected=f"'{OBJECTIVE_OF_FORM[form]}'",
        action="Restore config.json from a copy.",
    )
