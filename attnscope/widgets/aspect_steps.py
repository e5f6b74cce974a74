"""The keys that change how maps are looked at: each goes on to the next choice."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from attnscope.records.axes import ROWS, written_after
from attnscope.viewmodels.maps.aspect import BLENDS, BLOCKS, HIDDEN, OVERS, PLAIN
from attnscope.viewmodels.maps.segments import segments_of
from attnscope.viewmodels.session.state import Session

T = TypeVar("T")


def aspect_handlers(session: Session) -> Mapping[str, Callable[[], None]]:
    """One handler for each action about the aspect."""

    def next_blend() -> None:
        session.set_aspect(replace(session.aspect, blend=following(tuple(BLENDS), session.aspect.blend)))

    def next_over() -> None:
        aspect = session.aspect
        blend = "mean" if aspect.blend == "none" else aspect.blend
        session.set_aspect(replace(aspect, blend=blend, over=following(tuple(OVERS), aspect.over)))

    def next_hidden() -> None:
        session.set_aspect(replace(session.aspect, hidden=following(tuple(HIDDEN), session.aspect.hidden)))

    def next_block() -> None:
        if has_two_texts(session):
            session.set_aspect(replace(session.aspect, block=following(tuple(BLOCKS), session.aspect.block)))
        else:
            session.tell_person(
                "This text is one. Where a model reads two, A → B shows how they look at each other."
            )

    def renormalise() -> None:
        session.set_aspect(replace(session.aspect, is_renormalised=not session.aspect.is_renormalised))

    def by_word() -> None:
        if not (session.aspect.is_by_word or has_words(session)):
            session.tell_person("A picture has patches, not words.")
            return
        session.set_aspect(replace(session.aspect, is_by_word=not session.aspect.is_by_word))

    def next_rows() -> None:
        session.set_aspect(replace(session.aspect, rows=following(ROWS, session.aspect.rows)))

    def plain() -> None:
        session.set_aspect(PLAIN)

    return {
        "next-blend": next_blend,
        "next-over": next_over,
        "next-hidden": next_hidden,
        "next-block": next_block,
        "renormalise": renormalise,
        "by-word": by_word,
        "next-rows": next_rows,
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
    own = next((m for m in session.maps if m.head == session.primary), None)
    return own is not None and all(segments_of(side) is not None for side in (own.queries, own.keys))


def following(choices: tuple[T, ...], present: object) -> T:
    """The choice after the present one, and the first after the last."""
    at = next((k for k, choice in enumerate(choices) if choice == present), -1)
    return choices[(at + 1) % len(choices)]
