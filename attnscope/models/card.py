"""What a model folder says about its model besides the weights.

Heads that a model's training left closed are named in its config.json, and off when it is opened:

    "training": {…, "closed_heads": ["encoder L0H1", "cross L2H3"]}

The weights of such heads are still there; pruning removes them for good (`models/pruning`).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from attnscope.counting import plural
from attnscope.errors import LoadError
from attnscope.records.models import Form
from attnscope.records.sites import NO_GATES, Gates, HeadRef, Site
from attnscope.schemes.objectives import OBJECTIVES, usual_objective


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """The model's name, what it learned to do, how it was trained, and its card in Markdown.

    `training` holds whatever the recipe's author wants to remember, as JSON can hold it; the key
    `task` names the sample sentences to offer. `labels` are the answers of a model that tells labels, in the
    order of its outputs.
    """

    name: str
    objective: str
    training: Mapping[str, object] = field(default_factory=dict)
    text: str = ""
    labels: tuple[str, ...] = ()


def check_objective(value: object, form: Form, where: str, *, n_labels: int = 0) -> str:
    """`value` when it is the objective of a model of this form; raises LoadError."""
    known = OBJECTIVES.get(value) if isinstance(value, str) else None
    if known is not None and form in known.forms and (n_labels or not known.labels):
        return known.name
    raise LoadError(
        f"{where} names the objective {str(value)[:40]!r} for a model of the form {form}.",
        kind="config",
        expected=f"'{usual_objective(form)}'",
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


CLOSED_HEADS = "closed_heads"
"""The key in what a card remembers of its model's training."""
_NAMED = re.compile(r"(encoder|decoder|cross|pool) L(\d{1,6})H(\d{1,6})")


def closed_names(heads: Iterable[HeadRef]) -> list[str]:
    """Heads as config.json names them."""
    return [f"{head.stack} {head.label}" for head in heads]


def closed_gates(training: Mapping[str, object], sites: tuple[Site, ...]) -> Gates:
    """The gates that a card asks for: 0 for each closed head; names of no head are passed over."""
    names = training.get(CLOSED_HEADS)
    if not isinstance(names, list | tuple) or not names:
        return NO_GATES
    wanted = {match[0] for match in map(_NAMED.fullmatch, map(str, names)) if match is not None}
    heads = [head for site in sites for head in site.heads]
    return Gates.of({head: 0.0 for head in heads if f"{head.stack} {head.label}" in wanted})


def closed_note(gates: Gates) -> str:
    """What a person should know about a model that is opened with such gates."""
    n = len(gates.values)
    return f"Its training closed {plural(n, 'head: it is', 'heads: they are')} off." if n else ""


def without_closed(training: Mapping[str, object]) -> dict[str, object]:
    """The same memory for a model from which heads were removed: the numbers no longer hold."""
    return {key: value for key, value in training.items() if key != CLOSED_HEADS}
