"""Answering what each layer would say. No Qt."""

from collections.abc import Iterator

from attnscope.analysis.lens import logit_lens
from attnscope.records.lens import LensShown, ShowLens
from attnscope.records.messages import OPEN_MODEL, Reply
from attnscope.workers.serve_models import OpenModels


def show_lens(request: ShowLens, models: OpenModels) -> Iterator[Reply]:
    """The lens on the last positions of a text."""
    model = models.get(OPEN_MODEL)
    table = logit_lens(
        model,
        request.text,
        request.target,
        gates=request.gates,
        interventions=request.interventions,
        positions=slice(-request.max_positions, None),
        top=request.n_candidates,
    )
    yield LensShown(number=request.number, table=table)
