"""Optimisers, a file each: `OPTIMIZERS` has them by name, in the order in which messages list them."""

from attnscope.schemes.optimizers.optimizer import OptimizerScheme
from attnscope.schemes.registry import schemes_of

__all__ = ["OPTIMIZERS", "OptimizerScheme"]

OPTIMIZERS = schemes_of(__name__, OptimizerScheme)
