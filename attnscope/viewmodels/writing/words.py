"""A GenerationState in words: how it stands, which token is looked at, how large the tree is."""

from dataclasses import replace

from attnscope.counting import counted, fixed
from attnscope.records.generation import BeamTree, WrittenToken
from attnscope.viewmodels.session.state import Session
from attnscope.viewmodels.writing.state import GenerationState


def summary(state: GenerationState, session: Session) -> str:
    """What is happening, or what came of it."""
    n_tokens = len(state.tokens)
    words = counted(n_tokens, "token")
    match state.phase:
        case "failed":
            return state.error
        case "writing":
            return f"writing… {n_tokens} of at most {state.n_most}"
        case "stopped":
            return f"stopped after {words}; their attention was not kept"
        case "written" if state.written is not None:
            ends = "ended" if state.written.has_ended else "cut"
            old = " · text or gates have changed since" if state.is_outdated else ""
            return f"{words}, {ends} · log p {fixed(state.written.log_probability)} nats{old}"
        case _:
            return invitation(state, session)


def invitation(state: GenerationState, session: Session) -> str:
    """What will stand here, or what is missing."""
    model = session.model
    if model is None:
        return "Open a model first."
    if model.is_recorded:
        return "Recorded attention has no model that could write."
    if model.form == "encoder":
        fills = "fills in words; it " if model.objective == "masked" else ""
        return f"This model {fills}does not write text."
    if not state.can_write:
        return "Type a text first; the model writes on from it."
    if model.takes_target:
        return "The model writes its translation, each token with its probability and its attention."
    return "The model writes on after the text, each token with its probability and its attention."


def shown_tokens(state: GenerationState) -> tuple[WrittenToken, ...]:
    """The written tokens with their pieces as they read in the text, where that is known."""
    written = state.written
    if written is None:
        return state.tokens
    text = (written.target or written.source).tokens
    return tuple(
        replace(token, token=text[token.position + 1]) if token.position + 1 < len(text) else token
        for token in state.tokens
    )


def place_of_chosen(state: GenerationState) -> str:
    """Which token is looked at, and in which row its attention stands."""
    chosen, written = state.chosen, state.written
    if chosen is None:
        return ""
    number = f"token {(state.step or 0) + 1} of {len(state.tokens)}"
    text = (written.target or written.source).tokens if written else ()
    if chosen.position >= len(text):
        return number
    return f"{number}, written from the row of “{text[chosen.position].piece}”"


def tree_sentence(tree: BeamTree) -> str:
    """The tree in numbers."""
    n_ended = sum(node.state == "finished" for node in tree.nodes)
    return (
        f"{counted(len(tree.nodes), 'node')}, {counted(tree.depth, 'token')} deep, {n_ended} "
        "ended; best at the left"
    )
