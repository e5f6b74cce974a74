"""Scores, a file each: `SCORES` has them by name, in the order in which messages list them."""

from attnscope.schemes import schemes_of
from attnscope.schemes.scores.score import Comparison, Score

__all__ = ["SCORES", "Comparison", "Score"]

SCORES = schemes_of(__name__, Score)
