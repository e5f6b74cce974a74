"""Handles requests about the part of the model that made an output: parts that add up, patching, lens,
questions. No Qt.

Answering what one output token owes to the inputs, by four methods and as a graph. No Qt.

A method that a model or text does not allow is reported with the reason; the others are still shown.
"""

from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnscope.analysis.answers import candidates_of, comparing_position, read_logits, resolve_token
from attnscope.analysis.attribution import attribute_logits
from attnscope.analysis.causes import Patching, logit_lens, patch_map
from attnscope.analysis.influence import (
    StreamLevel,
    attention_graph,
    check_position,
    flow_values,
    raw_attention,
    relevance,
    roll_out,
    trace_levels,
)
from attnscope.analysis.model_reading import ask_model
from attnscope.analysis.watched_pass import predicting_tokens
from attnscope.errors import UserError
from attnscope.models import Model
from attnscope.models.inputs import picture_under
from attnscope.questions import question_named
from attnscope.records.causes import (
    AttributeOutput,
    GraphShown,
    InfluenceRow,
    InfluenceShown,
    LensShown,
    Method,
    OutputAttributed,
    PatchingNews,
    PatchTexts,
    ShowGraph,
    ShowInfluence,
    ShowLens,
    TextsPatched,
)
from attnscope.records.charts import Answered, Ask
from attnscope.records.importance import PartsDone
from attnscope.records.messages import OPEN_MODEL
from attnscope.records.requests import Reply
from attnscope.records.tokens import Token
from attnscope.trace.trace import Trace
from attnscope.workers.engine import Desk, StepsJob, serves, works
from attnscope.workers.views import Views

MAX_PATCHED = 512
"""Most tokens of a text that is patched: each of them is a pass for each layer."""


@serves(AttributeOutput)
def attribute_output(request: AttributeOutput, desk: Desk) -> Iterator[Reply]:
    """Attribute the difference of two logits to all parts."""
    model = desk.model
    logits = read_logits(model, request.text, request.target, request.gates)
    row = logits[check_position(request.position, len(logits))]
    found = attribute_logits(
        model,
        request.text,
        request.target,
        position=request.position,
        answer=resolve_token(model, request.answer, row),
        other=resolve_token(model, request.other, row),
        gates=request.gates,
    )
    yield OutputAttributed(
        number=request.number,
        attribution=found,
        candidates=candidates_of(model, row),
        picture=picture_under(model, request.text),
    )


@works(PatchTexts)
def patch_texts(request: PatchTexts, desk: Desk) -> Generator[Reply, None, None]:
    """One map of patches, made row by row."""
    model = desk.model
    yield PatchingNews(number=request.number, n_done=0, n_total=0)
    clean = read_logits(model, request.clean, request.target, request.gates)
    if len(clean) > MAX_PATCHED:
        raise UserError(
            f"These are {len(clean):,} tokens.",
            expected=f"at most {MAX_PATCHED} tokens to patch",
            action="Choose a shorter text.",
        )
    corrupt = read_logits(model, request.corrupt, request.target, request.gates)
    position = request.position
    if position is None:
        position = comparing_position(model, request.clean, request.target, clean, corrupt)
    row = clean[check_position(position, len(clean))]
    found = patch_map(
        model,
        (request.clean, request.target),
        (request.corrupt, request.target),
        Patching(
            kind=request.kind,
            stack=request.stack,
            position=position,
            answer=resolve_token(model, request.answer, row),
            other=resolve_token(model, request.other, row),
        ),
        request.gates,
    )
    for one in found:
        if isinstance(one, PartsDone):
            yield PatchingNews(number=request.number, n_done=one.n_done, n_total=one.n_total)
        else:
            yield TextsPatched(
                number=request.number, patched=one, position=position, candidates=candidates_of(model, row)
            )


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


@serves(Ask)
def answer_question(request: Ask, desk: Desk) -> Iterator[Reply]:
    answer = ask_model(
        question_named(request.question),
        desk.model,
        request.text,
        request.target,
        options=request.options,
        head=request.head,
        gates=request.gates,
        interventions=request.interventions,
    )
    yield Answered(number=request.number, question=request.question, answer=answer)


Weights = NDArray[np.float32]
MAX_FLOW = 256
"""Most tokens, all texts together: the time of one row grows with their third power."""
MAX_ROLLOUT = 1024
MAX_RELEVANCE = 512
_RECURRENT = "only for layers that read their own text through attention; here recurrent cells read it"
_LIMITS: dict[Method, int] = {"rollout": MAX_ROLLOUT, "flow": MAX_FLOW, "relevance": MAX_RELEVANCE}


@serves(ShowInfluence)
def show_influence(request: ShowInfluence, desk: Desk) -> Iterator[Reply]:
    """The quick methods, and the flow in the background; a new request cancels the one before."""
    desk.background.stop(request.work)
    about = _About(desk.model, _traced(request.trace, desk.views), request)
    for method in ("raw", "rollout", "relevance"):
        about.add(method)
        if method != "raw":
            yield about.shown()
    if about.add_refusal("flow"):
        yield about.shown()
    else:
        desk.background.start(request.work, StepsJob(request.number, about.flowing()))


@serves(ShowGraph)
def show_graph(request: ShowGraph, desk: Desk) -> Iterator[Reply]:
    """Attention as a graph from one output token to the inputs."""
    trace = _traced(request.trace, desk.views)
    if desk.model.info.body:
        raise UserError(
            f"There is no graph: {_RECURRENT}.", action="Look at the weights of the cross-attention."
        )
    graph = attention_graph(trace, request.position, threshold=request.threshold)
    yield GraphShown(number=request.number, position=request.position, graph=graph)


def _traced(number: int, views: Views) -> Trace:
    trace = views.find(OPEN_MODEL, number)
    if trace is None:
        raise UserError("The text has changed meanwhile.", action="Choose the token again.")
    return trace


class _About:
    """One output token: its inputs, and the methods' results so far."""

    def __init__(self, model: Model, trace: Trace, request: ShowInfluence) -> None:
        self._model, self._trace, self._request = model, trace, request
        self._levels: tuple[StreamLevel, ...] = ()
        self._rows: dict[Method, InfluenceRow] = {}
        self._explained = ""
        self._picture = picture_under(model, request.text)
        is_pair = trace.target is not None and any(site.stack == "cross" for site in trace.sites)
        own = trace.target.tokens if is_pair and trace.target is not None else trace.source.tokens
        self._source: tuple[Token, ...] = trace.source.tokens if is_pair else ()
        self.keys = (*self._source, *own)
        self.position = check_position(request.position, len(own))

    def shown(self) -> InfluenceShown:
        """The reply so far."""
        return InfluenceShown(
            number=self._request.number,
            position=self.position,
            keys=self.keys,
            rows=tuple(self._rows.values()),
            n_source=len(self._source),
            explained=self._explained,
            picture=self._picture,
        )

    def flowing(self) -> Generator[Reply, None, None]:
        """Yield the progress of the flow, input by input, then all rows."""
        try:
            levels = self._all_levels()
        except UserError as error:
            self._rows["flow"] = InfluenceRow(method="flow", refusal=str(error))
            yield self.shown()
            return
        found: list[float] = []
        for value in flow_values(levels, self.position):
            found.append(value)
            if len(found) < len(self.keys):
                yield replace(self.shown(), flow_done=len(found))
        self._rows["flow"] = InfluenceRow(method="flow", weights=np.array(found, np.float32))
        yield self.shown()

    def add(self, method: Literal["raw", "rollout", "relevance"]) -> None:
        """Add one more method, or why it does not apply."""
        if self.add_refusal(method):
            return
        ways = {"raw": self._raw, "rollout": self._rollout, "relevance": self._relevance}
        try:
            found = ways[method]()
        except UserError as error:
            self._rows[method] = InfluenceRow(method=method, refusal=str(error))
            return
        self._rows[method] = InfluenceRow(method=method, weights=found.astype(np.float32))

    def add_refusal(self, method: Method) -> bool:
        """Whether a method does not apply to the text or model; if so, record the reason."""
        refusal = self._refusal(method)
        if refusal:
            self._rows[method] = InfluenceRow(method=method, refusal=refusal)
        return bool(refusal)

    def _refusal(self, method: Method) -> str:
        limit = _LIMITS.get(method)
        if limit is not None and len(self.keys) > limit:
            return f"only for texts of up to {limit} tokens; these are {len(self.keys)}"
        return _RECURRENT if method != "raw" and self._model.info.body else ""

    def _raw(self) -> Weights:
        """The mean over heads of the last attention module; NaN for keys that it does not read."""
        row = np.full(len(self.keys), np.nan, np.float32)
        found = raw_attention(self._trace).weights[self.position]
        row[: len(found)] = found  # cross-attention reads the other text, which comes first
        return row

    def _all_levels(self) -> tuple[StreamLevel, ...]:
        self._levels = self._levels or trace_levels(self._trace)
        return self._levels

    def _rollout(self) -> Weights:
        found: Weights = roll_out(self._all_levels())[-1][self.position].float().cpu().numpy()
        return found

    def _relevance(self) -> Weights:
        request = self._request
        inputs = self._model.encode(request.text, request.target)
        if predicting_tokens(inputs) != self.keys[len(self._source) :]:
            raise UserError("this text is read in other tokens when it is read again")
        found = relevance(
            self._model,
            request.text,
            request.target,
            position=self.position,
            gates=request.gates,
            interventions=request.interventions,
            keeps_start=False,
        )
        self._explained = found.about
        row: Weights = found.weights[0]
        return row
