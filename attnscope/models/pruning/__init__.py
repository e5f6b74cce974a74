"""Removing heads for good: smaller models that say what the gated ones say, and the proof of it.

Must not import anything of analysis, training or the window.
"""

from attnscope.models.pruning.prune import Pruned, prune, pruning, shapes_of

__all__ = ["Pruned", "prune", "pruning", "shapes_of"]
