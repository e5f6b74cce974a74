"""From text to what each form of model reads.

decoder          <s> text
encoder          <s> text </s>
encoder-decoder  source text </s>;  target <s> text, each token predicting the next, the last </s>
"""

from dataclasses import dataclass, replace

from attnscope.errors import LoadError, UserError
from attnscope.records.models import Form
from attnscope.records.tokens import Tokens
from attnscope.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Both texts as tokens; `is_own_target` says that the model wrote the target itself."""

    source: Tokens
    target: Tokens | None = None
    is_own_target: bool = False


_NEEDED_ROLES: dict[Form, tuple[str, ...]] = {
    "decoder": ("begin",),
    "encoder": ("begin", "end"),
    "encoder-decoder": ("begin", "end"),
}


def check_roles(tokenizer: Tokenizer, form: Form) -> None:
    """Raise LoadError when the tokenizer lacks a special token that the form of model needs."""
    missing = [role for role in _NEEDED_ROLES[form] if not tokenizer.has(role)]
    if missing:
        raise LoadError(
            f"The tokenizer has no token for: {', '.join(missing)}.",
            kind="tokenizer",
            expected="<s> and </s> in its vocabulary",
            action="Load the tokenizer saved next to the model.",
        )


def encode_source(tokenizer: Tokenizer, form: Form, text: str, max_tokens: int) -> Tokens:
    """The source text of a model of this form, cut to `max_tokens`."""
    return tokenizer.encode(
        text, add_begin=form != "encoder-decoder", add_end=form != "decoder", max_tokens=max_tokens
    )


def encode_target(tokenizer: Tokenizer, form: Form, text: str, max_tokens: int) -> Tokens:
    """The target text; raises UserError for a model that takes none."""
    if form != "encoder-decoder":
        raise UserError(
            "This model reads one text only.",
            expected="no second text",
            action="Leave the second text out, or open a translation model.",
        )
    return tokenizer.encode(text, add_begin=True, max_tokens=max_tokens)


def own_target(tokenizer: Tokenizer, ids: list[int]) -> Tokens:
    """What the model wrote, as a target: <s> and its own tokens with their own pieces.

    The ids are kept as written, even where the tokenizer would split the same text otherwise.
    """
    text = tokenizer.decode(ids)
    encoded = tokenizer.encode(text, add_begin=True)
    if encoded.ids == (tokenizer.begin_id, *ids):
        return encoded
    tokens = [tokenizer.token(id) for id in (tokenizer.begin_id, *ids)]
    return Tokens(text=text, tokens=tuple(replace(token, start=0, end=0) for token in tokens))
