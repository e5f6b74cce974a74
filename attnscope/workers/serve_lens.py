"""Answering what each layer would say. No Qt."""

from collections.abc import Iterator

from attnscope.analysis.lens import logit_lens
from attnscope.records.lens import LensShown, ShowLens
from attnscope.records.requests import Reply
from attnscope.workers.desk import Desk, serves


@serves(ShowLens)
def show_lens(request: ShowLens, desk: Desk) -> Iterator[Reply]:
    """The lens on the last positions of a text."""
    table = logit_lens(
        desk.model,
        request.text,
        request.target,
        gates=request.gates,
        interventions=request.interventions,
        positions=slice(-request.max_positions, None),
        top=request.n_candidates,
    )
    yield LensShown(number=request.number, table=table)
