"""What was lost between the typed text and the tokens, in a few words."""

from attnscope.records.tokens import Tokens
from attnscope.viewmodels.typed_text import TypedText

_NOTHING = TypedText()


def text_notes(tokens: Tokens, typed: TypedText = _NOTHING) -> str:
    """Counts of what was cut, unknown and replaced, for instance `12 tokens cut · 1 unknown`."""
    n_replaced = tokens.n_replaced + typed.n_replaced
    parts = (
        (typed.n_cut, "characters cut"),
        (tokens.n_dropped, "tokens cut" if tokens.n_dropped != 1 else "token cut"),
        (tokens.n_unknown, "unknown"),
        (n_replaced, "replaced"),
        (tokens.n_untrained, "at positions never trained"),
    )
    return " · ".join(f"{count:,} {what}" for count, what in parts if count)
