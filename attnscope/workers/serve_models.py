"""Opening and saving models. No Qt."""

from collections.abc import Iterator
from pathlib import Path

from attnscope.models.recording.opening import open_source
from attnscope.records.messages import OPEN_MODEL, LoadModel, ModelLoaded, ModelSaved, Progress, SaveModel
from attnscope.records.requests import Reply
from attnscope.workers.desk import Desk, serves


@serves(LoadModel)
def load_model(request: LoadModel, desk: Desk) -> Iterator[Reply]:
    """Open a model; the one before stays open until the new one is complete."""
    yield Progress(number=request.number, what=f"Opening {Path(request.source).name or request.source}")
    model = open_source(request.source, request.device)
    yield ModelLoaded(number=request.number, info=model.info)
    # Only now: who gives the opening up at its last moment is not told of it, and keeps the model before.
    desk.models.open = model
    desk.views.forget(OPEN_MODEL)
    desk.forget_model()


@serves(SaveModel)
def save_model(request: SaveModel, desk: Desk) -> Iterator[Reply]:
    """Save the open model as a model folder."""
    model = desk.model
    yield Progress(number=request.number, what=f"Saving {model.info.name}")
    model.save(Path(request.folder))
    yield ModelSaved(number=request.number, folder=request.folder)
