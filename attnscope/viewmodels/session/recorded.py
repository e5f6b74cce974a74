"""What a session leaves as it is: text and heads of recorded attention, heads that are out of reach."""

from dataclasses import replace
from typing import TYPE_CHECKING

from attnscope.records.models import ModelInfo
from attnscope.viewmodels.session.history import Setting

if TYPE_CHECKING:
    from attnscope.viewmodels.session.state import Session

READ_ONLY = "recorded: no model that could read another text"
"""What stands beside the text."""
READ_ONLY_TIP = (
    "This attention was recorded, or given as arrays. There is no model behind it: it cannot read another "
    "text, and its heads cannot be changed."
)
NO_INSIDE = "Recorded attention has queries and keys but no values: the steps need a model"
"""Why a head cannot be stepped through."""
_TOLD = "This is recorded attention without a model: it cannot read another text, nor can heads be changed."


def is_recorded(model: ModelInfo | None) -> bool:
    """Whether recorded attention is open."""
    return model is not None and model.is_recorded


def fixed_heads(model: ModelInfo | None) -> str:
    """Why no head of what is open can be changed, in a sentence; empty where each can, or nothing is open."""
    return model.fixed_heads if model is not None else ""


def possible(session: "Session", after: Setting) -> Setting:
    """A setting as far as it can be: with recorded attention texts, gates and changes of heads stay, in a
    model whose attention is out of reach gates and changes of heads; the person is told so.
    """
    model = session.model
    if model is None or (model.has_gates and model.reads != "attention"):  # asked at every key: calls nothing
        return after
    now = session.setting
    kept = replace(after, gates=now.gates, interventions=now.interventions)
    if model.is_recorded:
        kept = replace(kept, text=now.text, target=now.target)
    if kept != after:
        session.notices.say(_TOLD if model.is_recorded else model.fixed_heads, about="Recorded")
    return kept
