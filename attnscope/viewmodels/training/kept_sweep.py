"""A sweep that comes with the program: finished runs of one recipe in several sizes, for who has none yet.

Only what a list of runs says of them is kept, not their models. Must not import Qt.
"""

import math
from pathlib import Path

from attnscope.codec import Caps, Codec
from attnscope.errors import LoadError
from attnscope.paths import resources_folder
from attnscope.records.runs import RunSummary
from attnscope.strict_json import as_object, read_json

KEPT_SWEEP = "shakespeare-sizes"
"""The recipe it is of."""
SWEEPS = Codec(is_strict=True, is_sparse=True, odd="texts", caps=Caps(whole=2**53, number=math.inf))


def kept_sweep_path() -> Path:
    """Where it is kept."""
    return resources_folder() / "sweeps" / f"{KEPT_SWEEP}.json"


def kept_sweep() -> tuple[RunSummary, ...]:
    """Its runs, the smallest first; none where the file is missing or cannot be read."""
    try:
        runs = as_object(read_json(kept_sweep_path()), what="the kept sweep")["runs"]
        return SWEEPS.read(tuple[RunSummary, ...], runs)
    except (LoadError, ValueError, KeyError):
        return ()
