"""What cannot be asked of recorded attention, because only a model has it. No Qt."""

from attnscope.models import Model
from attnscope.records.models import needs_model
from attnscope.records.requests import Request


def require_model(request: Request, model: Model | None) -> None:
    """Raise UserError when `model` is recorded attention and the request is for what only a model can do."""
    if model is not None and model.info.is_recorded and request.beyond_recordings:
        raise needs_model(model.info.name, request.beyond_recordings)


def running(model: Model) -> Model:
    """The model, for an experiment with it; raises UserError for recorded attention."""
    if model.info.is_recorded:
        raise needs_model(model.info.name, "This experiment")
    return model
