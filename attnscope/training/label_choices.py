"""What learning labels asks of a recipe: its model section, and which choices go together.

Reads no data and builds no model. The number of labels is a wish until the data are read.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from attnscope.records.models import Form
from attnscope.training.parts import FORM_OF_OBJECTIVE, ObjectivePart, Recipe, Watch

LABEL_FORMS: tuple[Form, ...] = ("encoder", "decoder")
_WISHED_LABELS = 2
_HIDDEN = re.compile(r"\s*(<mask>|\[MASK\])")


def form_of(table: Mapping[str, object], objective: ObjectivePart) -> Form:
    """The form of model: that of the objective, but labels may be told by a decoder as well."""
    for form in LABEL_FORMS if objective.kind == "classification" else ():
        if table.get("form") == form:
            return form
    return FORM_OF_OBJECTIVE[objective.kind]


def is_free_to_set(key: str, value: object, objective: ObjectivePart) -> bool:
    """Whether a recipe may set this key of [model], which otherwise follows from the rest."""
    return key == "form" and objective.kind == "classification" and value in LABEL_FORMS


def labels_wished(objective: ObjectivePart) -> int:
    """How many labels to count with before the data are known; 0 for objectives of tokens."""
    return _WISHED_LABELS if objective.kind == "classification" else 0


def without_hidden(watch: Watch) -> Watch:
    """A watched text without the places of hidden words: whoever tells labels fills in none."""
    return replace(watch, text=_HIDDEN.sub("", watch.text).strip() or watch.text)


def label_faults(recipe: Recipe) -> Iterator[tuple[str, object, str]]:
    """Key, value and what was expected, for data and objectives of which only one is about labels."""
    kind, data = recipe.objective.kind, recipe.data.kind
    if data == "labelled" and kind != "classification":
        yield "objective.kind", kind, '"classification", since data.kind is "labelled"'
    if kind == "classification" and data not in ("labelled", "task"):
        yield "data.kind", data, '"labelled" or "task", since objective.kind is "classification"'
