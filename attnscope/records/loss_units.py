"""What a loss is the mean over, by the objective of the run that tells it.

objective          the loss is the mean over
causal             tokens
masked             tokens that were hidden
translation        tokens of the target
span-corruption    tokens of the target
classification     texts: one label each
"""

from collections.abc import Iterable

_OVER = {
    "causal": "token",
    "masked": "masked token",
    "translation": "target token",
    "span-corruption": "target token",
    "classification": "text",
}
_UNKNOWN = "token"
"""Runs that do not say what they learn are of versions that knew no labels."""


def loss_unit(objectives: Iterable[str]) -> str:
    """The unit of the losses of some runs, such as `nats per token`; both where they differ."""
    over = dict.fromkeys(_OVER.get(objective, _UNKNOWN) for objective in objectives)
    return f"nats per {' or '.join(over) or _UNKNOWN}"
