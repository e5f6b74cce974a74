"""The actions that change how maps are looked at, and which choices a model and a text have."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from attnscope.records.axes import written_after
from attnscope.viewmodels.maps.aspect import PLAIN
from attnscope.viewmodels.maps.segments import segments_of
from attnscope.viewmodels.session.state import Session


def aspect_handlers(session: Session) -> Mapping[str, Callable[[], None]]:
    """One handler for each action about the aspect."""

    def renormalise() -> None:
        session.set_aspect(replace(session.aspect, is_renormalised=not session.aspect.is_renormalised))

    def by_word() -> None:
        if not (session.aspect.is_by_word or has_words(session)):
            session.notices.say("A picture has patches, not words.")
            return
        session.set_aspect(replace(session.aspect, is_by_word=not session.aspect.is_by_word))

    def plain() -> None:
        session.set_aspect(PLAIN)

    return {
        "renormalise": renormalise,
        "by-word": by_word,
        "plain-maps": plain,
    }


def writes(session: Session) -> bool:
    """Whether the rows of the shown stack write: they can be called after what is written or read there."""
    traced, stack = session.traced, session.stack
    return traced is not None and stack is not None and written_after(stack, traced.target) is not None


def has_words(session: Session) -> bool:
    """Whether what the model reads has words: a picture has none."""
    return session.model is None or session.model.reads != "picture"


def has_two_texts(session: Session) -> bool:
    """Whether the shown maps are of two texts that the model reads as one."""
    own = next((m for m in session.maps.raw if m.head == session.primary), None)
    return own is not None and all(segments_of(side) is not None for side in (own.queries, own.keys))
