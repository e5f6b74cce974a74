"""How layers add to the residual stream, a file each: `RESIDUALS` has them by name, the plain one first."""

from attnscope.schemes import schemes_of
from attnscope.schemes.residuals.residual import Residual

__all__ = ["RESIDUALS", "Residual"]

RESIDUALS = schemes_of(__name__, Residual)
