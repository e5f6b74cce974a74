"""Answering questions about the open model and a text. No Qt."""

from collections.abc import Iterator

from attnscope.analysis.model_reading import ask_model
from attnscope.questions import question_named
from attnscope.records.asking import Answered, Ask
from attnscope.records.requests import Reply
from attnscope.workers.desk import Desk, serves


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
