"""What a head's weights say, product by product, in the background. No Qt."""

from collections.abc import Generator

from attnscope.analysis.weight_parts import read_weights
from attnscope.models import Model
from attnscope.records.head_weights import ShowWeights, WeightsNews, WeightsShown
from attnscope.records.importance import Progress
from attnscope.records.requests import Reply
from attnscope.workers.desk import Desk, works


@works(ShowWeights)
def show_weights(request: ShowWeights, desk: Desk) -> Generator[Reply, None, None]:
    """One head: the singular values of both products, then the token pairs of each."""
    return _read(request, desk.model)


def _read(request: ShowWeights, model: Model) -> Generator[Reply, None, None]:
    yield WeightsNews(number=request.number, n_done=0, n_total=0)
    for found in read_weights(model, request.head, request.top):
        if isinstance(found, Progress):
            yield WeightsNews(
                number=request.number, n_done=found.n_done, n_total=found.n_total, about=found.about
            )
        else:
            yield WeightsShown(number=request.number, found=found)
