"""Edits of recipes that are in no file, kept from one start to the next. Must not import Qt."""

import json
from pathlib import Path

from attnscope.errors import LoadError
from attnscope.files import replace_file
from attnscope.outside import read_outside
from attnscope.viewmodels.training.state import TrainingState

DRAFT_NAME = "recipe-draft.json"
_MAX_BYTES = 10_000_000


def keep_draft(training: TrainingState, folder: Path) -> None:
    """Keep the edits in a file of this folder. Raises SaveError or OSError."""
    kept = training.recipe.unsaved
    if kept:
        replace_file(folder / DRAFT_NAME, json.dumps(kept).encode())
    else:
        (folder / DRAFT_NAME).unlink(missing_ok=True)


def bring_draft_back(training: TrainingState, folder: Path) -> None:
    """Go on with the edits that were kept; without them, or where they are damaged, nothing changes."""
    file = folder / DRAFT_NAME
    try:
        kept = json.loads(read_outside(file, expected="the edits of a recipe", max_bytes=_MAX_BYTES))
    except (LoadError, ValueError, RecursionError):
        return
    if training.recipe.take_unsaved(kept):
        training.place.offer(training.run_folder)
