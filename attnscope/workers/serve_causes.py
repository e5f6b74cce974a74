"""Answering which part of the model made an output: parts that add up, patching, lens, questions. No Qt."""

from collections.abc import Generator, Iterator

from attnscope.analysis.answers import (
    candidates_of,
    comparing_position,
    read_logits,
    resolve_token,
)
from attnscope.analysis.attribution import attribute_logits
from attnscope.analysis.flow import check_position
from attnscope.analysis.lens import logit_lens
from attnscope.analysis.model_reading import ask_model
from attnscope.analysis.patching import Patching, patch_map
from attnscope.errors import UserError
from attnscope.models import Model
from attnscope.models.pictures import picture_under
from attnscope.questions import question_named
from attnscope.records.asking import Answered, Ask
from attnscope.records.attribution import (
    AttributeOutput,
    OutputAttributed,
    PatchingNews,
    PatchTexts,
    TextsPatched,
)
from attnscope.records.importance import PartsDone
from attnscope.records.lens import LensShown, ShowLens
from attnscope.records.requests import Reply
from attnscope.workers.desk import Desk, serves, works

MAX_PATCHED = 512
"""Most tokens of a text that is patched: each of them is a pass for each layer."""


@serves(AttributeOutput)
def attribute_output(request: AttributeOutput, desk: Desk) -> Iterator[Reply]:
    """What every part adds to the difference of two logits."""
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
    return _patch(request, desk.model)


def _patch(request: PatchTexts, model: Model) -> Generator[Reply, None, None]:
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
    """The answer of the open model."""
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
