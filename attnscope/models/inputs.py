"""From text to what each form of model reads.

decoder          <s> text
encoder          <s> text </s>
encoder-decoder  source text </s>;  target <s> text, each token predicting the next, the last </s>
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import torch

from attnscope.counting import plural
from attnscope.errors import LoadError, UserError, of_wrong_kind
from attnscope.nn.masks import Pattern
from attnscope.nn.pooling import sentence_reach
from attnscope.records.models import Form
from attnscope.records.tokens import Token, Tokens
from attnscope.text.tokenizer import Tokenizer

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Both texts as tokens; `is_own_target` says that the model wrote the target itself.

    `pattern` is a mask that somebody gave for the self-attention of the source; our own models know it.
    `segments` number the texts that a source is made of, token by token; empty where it is one. Of a picture
    our own models read `patches`, the numbers of each token, in the place of ids.
    """

    source: Tokens
    target: Tokens | None = None
    is_own_target: bool = False
    pattern: Pattern | None = None
    segments: tuple[int, ...] = ()
    patches: tuple[tuple[int, ...], ...] = ()

    @property
    def n_tokens(self) -> int:
        return len(self.source) + (0 if self.target is None else len(self.target))


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


def encode_second(tokenizer: Tokenizer, text: str, max_tokens: int) -> Tokens:
    """The second text of a model that matches two, read like the first."""
    return tokenizer.encode(text, add_begin=True, add_end=True, max_tokens=max_tokens)


def check_strings(text: object, target: object) -> None:
    """Raise UserError unless the text is one string, and the target too where there is one."""
    check_string(text, "the text")
    if target is not None:
        check_string(target, "the target")


def check_string(given: object, name: str) -> None:
    """Raise UserError unless what is given is one string."""
    if not isinstance(given, str):
        raise of_wrong_kind(given, name, "one string", 'Join words: " ".join(words).')


def joined_text(first: str, second: str) -> str:
    """What two texts that are read as one are called together."""
    return f"{first}\n{second}"


def join_segments(first: Tokens, second: Tokens, max_tokens: int) -> Inputs:
    """Two texts as one source, `<s>` first `</s>` second `</s>`, cut to `max_tokens`, the longer first."""
    offset = len(first.text) + 1
    added = [replace(t, start=t.start + offset, end=t.end + offset) for t in second.tokens]
    head, tail = fitted_pair(first.tokens, added, max_tokens)
    tokens = replace(
        first,
        text=joined_text(first.text, second.text),
        tokens=(*head, *tail),
        n_dropped=first.n_dropped + second.n_dropped + len(first) + len(added) - len(head) - len(tail),
        n_unknown=first.n_unknown + second.n_unknown,
        n_replaced=first.n_replaced + second.n_replaced,
        n_cut=first.n_cut + second.n_cut,
    )
    return Inputs(source=tokens, segments=(0,) * len(head) + (1,) * len(tail))


def fitted_pair(first: Sequence[T], second: Sequence[T], n_most: int) -> tuple[list[T], list[T]]:
    """As many tokens of two texts as fit, half of the room for each at least; both keep their last one."""
    n_second = min(len(second), max(n_most - len(first), n_most // 2))
    return _fitted(first, n_most - n_second), _fitted(second, n_second)


def _fitted(tokens: Sequence[T], n_most: int) -> list[T]:
    return list(tokens) if len(tokens) <= n_most else [*tokens[: n_most - 1], tokens[-1]]


def with_segments(inputs: Inputs) -> Inputs:
    """The same inputs, each token of the source knowing which of two texts it is of."""
    if not any(inputs.segments) or len(inputs.segments) != len(inputs.source):
        return inputs
    pairs = zip(inputs.source.tokens, inputs.segments, strict=True)
    tokens = tuple(replace(token, segment=segment) for token, segment in pairs)
    return replace(inputs, source=replace(inputs.source, tokens=tokens))


def with_sentences(tokens: Tokens, ends: Sequence[int]) -> Tokens:
    """The same tokens with the places where their sentences end, as hierarchical pooling finds them."""
    reach = sentence_reach(torch.tensor([tokens.ids]), ends)
    return replace(tokens, sentences=tuple((reach.last[0] + 1).tolist()))


def with_pattern(inputs: Inputs, pattern: Pattern) -> Inputs:
    """The same texts under a mask; raises UserError when it is of another number of tokens."""
    n_tokens = len(inputs.source)
    try:
        pattern.check(n_tokens, n_tokens)
    except ValueError as error:
        raise UserError(
            f"The mask does not fit the text of {plural(n_tokens, 'token')}: {error}.",
            expected=f"a mask of {n_tokens} queries and {n_tokens} keys, special tokens included",
            action="Make the mask for as many tokens as the text has.",
        ) from error
    return replace(inputs, pattern=pattern)


def own_target(tokenizer: Tokenizer, ids: list[int]) -> Tokens:
    """What the model wrote, as a target: <s> and its own tokens with their own pieces.

    The ids are kept as written, even where the tokenizer would split the same text otherwise.
    """
    text = tokenizer.decode(ids)
    encoded = tokenizer.encode(text, add_begin=True)
    if encoded.ids == (tokenizer.begin_id, *ids):
        return encoded
    tokens = tuple(replace(tokenizer.token(id), start=0, end=0) for id in (tokenizer.begin_id, *ids))
    return Tokens(text=text, tokens=begun(tokens))


def begun(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    """The tokens of a text after its start token: the first of them continues no word."""
    return (*tokens[:1], *(replace(token, joins_previous=False) for token in tokens[1:2]), *tokens[2:])
