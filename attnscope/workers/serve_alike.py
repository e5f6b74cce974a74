"""Finding which heads attend alike, in the background. No Qt."""

from collections.abc import Generator

from attnscope.analysis.redundancy import HeadDivergences, head_pairs
from attnscope.errors import UserError
from attnscope.models import Model
from attnscope.records.importance import Progress
from attnscope.records.messages import OPEN_MODEL
from attnscope.records.redundancy import CompareHeads, ComparingNews, HeadsCompared
from attnscope.records.requests import Reply
from attnscope.workers.desk import Desk, works
from attnscope.workers.serve_curves import samples_asked
from attnscope.workers.views import Views

MAX_SHOWN = 512
"""Most tokens of a text that is compared alone: all maps of a stack are held at once."""
MIN_HEADS = 2


@works(CompareHeads)
def compare_heads(request: CompareHeads, desk: Desk) -> Generator[Reply, None, None]:
    """One pass over texts, or over the trace that is shown."""
    return _compare(request, desk.model, desk.views)


def _compare(request: CompareHeads, model: Model, views: Views) -> Generator[Reply, None, None]:
    yield ComparingNews(number=request.number, n_done=0, n_total=0)
    if request.source == "shown":
        yield _shown(request, views)
        return
    samples, name = samples_asked(model, request.source, request.path, request.max_texts)
    for found in head_pairs(model, samples, request.stack):
        if isinstance(found, Progress):
            yield ComparingNews(number=request.number, n_done=found.n_done, n_total=found.n_total)
        else:
            yield HeadsCompared(number=request.number, pairs=found, texts=name)


def _shown(request: CompareHeads, views: Views) -> HeadsCompared:
    trace = views.find(OPEN_MODEL, request.trace)
    if trace is None:
        raise UserError("The text has changed meanwhile.", action="Compare again.")
    sites = [site for site in trace.sites if site.stack == request.stack]
    heads = [head for site in sites for head in site.heads]
    longest = max((len(part) for site in sites for part in trace.tokens(site)), default=0)
    if len(heads) < MIN_HEADS or longest > MAX_SHOWN:
        raise UserError(
            f"These are {len(heads)} heads on {longest} tokens.",
            expected=f"at least {MIN_HEADS} heads and at most {MAX_SHOWN} tokens",
            action="Choose another stack, or several shorter texts.",
        )
    sums = HeadDivergences(heads)
    sums.add(trace, request.stack)
    return HeadsCompared(
        number=request.number, pairs=sums.pairs(request.stack), texts="the text that is shown"
    )
