"""What a model folder says about its model besides the weights."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from attnscope.errors import LoadError
from attnscope.records.models import Form

Objective = Literal["causal", "masked", "translation", "span-corruption", "classification"]
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
    `task` names the sample sentences to offer. `labels` are the answers of a model that tells labels, in the
    order of its outputs.
    """

    name: str
    objective: Objective
    training: Mapping[str, object] = field(default_factory=dict)
    text: str = ""
    labels: tuple[str, ...] = ()


def check_objective(value: object, form: Form, where: str, *, n_labels: int = 0) -> Objective:
    """`value` when it is the objective of a model of this form; raises LoadError."""
    if n_labels and value == "classification":
        return "classification"
    for objective in OBJECTIVES:
        if objective == value and OBJECTIVE_OF_FORM[form] == objective:
            return objective
    if form == "encoder-decoder" and value == "span-corruption":
        return "span-corruption"
    raise LoadError(
        f"{where} names the objective {str(value)[:40]!r} for a model of the form {form}.",
        kind="config",
        expected=f"'{OBJECTIVE_OF_FORM[form]}'",
        action="Restore config.json from a copy.",
    )


def check_labels(value: object, n_labels: int, where: str) -> tuple[str, ...]:
    """The names of a model's labels, each once and as many as it has outputs; raises LoadError."""
    labels = value if isinstance(value, list) else []
    if len(labels) == n_labels == len(set(map(str, labels))) and all(isinstance(n, str) for n in labels):
        return tuple(labels)
    raise LoadError(
        f"{where} names {len(labels)} labels for a model with {n_labels}.",
        kind="config",
        expected=f"labels: a list of {n_labels} different texts" if n_labels else "no labels",
        action="Restore config.json from a copy.",
    )
