"""Questions about a model and a text, a file each: `QUESTIONS` has them by name.

Window, command line, Python, command palette, help and export read this list.
"""

from attnscope.errors import UserError, meant, shown
from attnscope.questions.question import (
    Attended,
    Copied,
    Decoded,
    Mixing,
    NextTokens,
    NoOptions,
    OpenOffsets,
    PartPath,
    Passage,
    Projections,
    Question,
    Reading,
    Recalled,
    Routing,
    Said,
    Spans,
    Streams,
    Units,
)
from attnscope.schemes import schemes_of

__all__ = [
    "QUESTIONS",
    "Attended",
    "Copied",
    "Decoded",
    "Mixing",
    "NextTokens",
    "NoOptions",
    "OpenOffsets",
    "PartPath",
    "Passage",
    "Projections",
    "Question",
    "Reading",
    "Recalled",
    "Routing",
    "Said",
    "Spans",
    "Streams",
    "Units",
    "question_named",
]

QUESTIONS = schemes_of(__name__, Question)  # type: ignore[type-abstract]  # those with a name are whole
"""Every question, in the order in which people meet them."""


def question_named(name: str) -> Question:
    """The question with a name or title, ignoring case, with dashes or spaces; raises UserError."""
    wanted = name.strip().lower().replace(" ", "-")
    for question in QUESTIONS.values():
        if wanted in (question.name, question.title.lower().replace(" ", "-")):
            return question
    raise UserError(
        f"There is no question '{shown(name)}'.",
        expected=f"one of {', '.join(QUESTIONS)}",
        action=meant(wanted, QUESTIONS).strip(),
    )
