"""Optimisers, a file each: `OPTIMIZERS` has them by name, in the order in which messages list them."""

from attnscope.schemes import schemes_of
from attnscope.schemes.optimizers.optimizer import OptimizerScheme

__all__ = ["OPTIMIZERS", "OptimizerScheme"]

OPTIMIZERS = schemes_of(__name__, OptimizerScheme)
