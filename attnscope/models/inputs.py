"""From text to the input of each form of model.

decoder          <s> text
encoder          <s> text </s>
encoder-decoder  source text </s>;  target <s> text, each token predicting the next, the last </s>

What a vision model sees of a picture, for laying its attention over it. Its tokens: special ones first (a
class token, registers), then the patches line by line, written `row,column`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray

from attnscope.counting import plural
from attnscope.errors import LoadError, UserError, of_wrong_kind
from attnscope.nn import ModelConfig, Pattern, patch_numbers, sentence_reach
from attnscope.records.maps import Picture
from attnscope.records.models import Form
from attnscope.records.tokens import Token, Tokens
from attnscope.text import Tokenizer, fitted_pixels, read_picture

if TYPE_CHECKING:
    from attnscope.models.model import Model

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Both texts as tokens; `is_own_target` if the model generated the target itself.

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
    """Raise LoadError if the tokenizer lacks a special token that the form of model needs."""
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
    """The target text; raises UserError for a model without one."""
    if form != "encoder-decoder":
        raise UserError(
            "This model reads one text only.",
            expected="no second text",
            action="Leave the second text out, or open a translation model.",
        )
    return tokenizer.encode(text, add_begin=True, max_tokens=max_tokens)


def encode_second(tokenizer: Tokenizer, text: str, max_tokens: int) -> Tokens:
    """The second text of a model that matches two, encoded like the first."""
    return tokenizer.encode(text, add_begin=True, add_end=True, max_tokens=max_tokens)


def check_strings(text: object, target: object) -> None:
    """Raise UserError unless the text is a single string, and the target too if there is one."""
    check_string(text, "the text")
    if target is not None:
        check_string(target, "the target")


def check_string(given: object, name: str) -> None:
    """Raise UserError unless the value is a single string."""
    if not isinstance(given, str):
        raise of_wrong_kind(given, name, "one string", 'Join words: " ".join(words).')


def joined_text(first: str, second: str) -> str:
    """Display name of a text pair."""
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
    """Lengths of two texts that fit together, at least half of the room for each; both keep their last
    token.
    """
    n_second = min(len(second), max(n_most - len(first), n_most // 2))
    return _fitted(first, n_most - n_second), _fitted(second, n_second)


def _fitted(tokens: Sequence[T], n_most: int) -> list[T]:
    return list(tokens) if len(tokens) <= n_most else [*tokens[: n_most - 1], tokens[-1]]


def with_segments(inputs: Inputs) -> Inputs:
    """The same inputs, with the segment of each source token."""
    if not any(inputs.segments) or len(inputs.segments) != len(inputs.source):
        return inputs
    pairs = zip(inputs.source.tokens, inputs.segments, strict=True)
    tokens = tuple(replace(token, segment=segment) for token, segment in pairs)
    return replace(inputs, source=replace(inputs.source, tokens=tokens))


def with_sentences(tokens: Tokens, ends: Sequence[int]) -> Tokens:
    """The same tokens with the ends of their sentences, as hierarchical pooling finds them."""
    reach = sentence_reach(torch.tensor([tokens.ids]), ends)
    return replace(tokens, sentences=tuple((reach.last[0] + 1).tolist()))


def with_pattern(inputs: Inputs, pattern: Pattern) -> Inputs:
    """The same texts under a mask; raises UserError if it has another number of tokens."""
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
    """The model's own output as a target: <s> and its tokens with their own pieces.

    The ids are kept as written, even where the tokenizer would split the same text otherwise.
    """
    text = tokenizer.decode(ids)
    encoded = tokenizer.encode(text, add_begin=True)
    if encoded.ids == (tokenizer.begin_id, *ids):
        return encoded
    tokens = tuple(replace(tokenizer.token(id), start=0, end=0) for id in (tokenizer.begin_id, *ids))
    return Tokens(text=text, tokens=begun(tokens))


def begun(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    """The tokens of a text after its start token: the first of them does not continue a word."""
    return (*tokens[:1], *(replace(token, joins_previous=False) for token in tokens[1:2]), *tokens[2:])


_FIRST_NAMES = ("CLS", "DIST")
_PATCH = re.compile(r"(\d{1,4}),(\d{1,4})")
MAX_FIRST = 64
"""The most tokens before the patches that are taken for special ones."""


def patch_tokens(text: str, grid: tuple[int, int], n_tokens: int) -> Tokens:
    """Tokens for a sequence of `n_tokens`: those before the patches, then `row,column` of each.

    Where the sequence is no grid with something before it, the tokens are numbered.
    """
    n_rows, n_columns = grid
    n_first = n_tokens - n_rows * n_columns
    if not 0 <= n_first <= MAX_FIRST:
        numbered = tuple(Token(id=i, piece=str(i)) for i in range(n_tokens))
        return Tokens(text=text, tokens=numbered)
    names = [*_FIRST_NAMES[:n_first], *(f"REG{i}" for i in range(n_first - len(_FIRST_NAMES)))]
    if n_first > len(_FIRST_NAMES):
        names = ["CLS", *(f"REG{i}" for i in range(n_first - 1))]
    first = tuple(Token(id=i, piece=f"[{name}]", is_special=True) for i, name in enumerate(names))
    patches = tuple(
        Token(id=n_first + row * n_columns + column, piece=f"{row},{column}")
        for row in range(n_rows)
        for column in range(n_columns)
    )
    return Tokens(text=text, tokens=first + patches)


def patch_grid(source: Tokens) -> tuple[int, int] | None:
    """Rows and columns of the patches behind tokens of `patch_tokens`; None for other tokens."""
    last = _PATCH.fullmatch(source.tokens[-1].piece) if len(source) else None
    if last is None:
        return None
    grid = int(last[1]) + 1, int(last[2]) + 1
    n_tokens = len(source)
    is_right = grid[0] * grid[1] <= n_tokens and patch_tokens("", grid, n_tokens).pieces == source.pieces
    return grid if is_right else None


# Pictures as our own models read them: named by a text, cut into patches behind a class token.


def encode_picture(config: ModelConfig, text: str, target: str | None = None) -> Inputs:
    """The picture that `text` names as tokens and the numbers of its patches; raises UserError."""
    if target is not None and target.strip():
        raise UserError("This model reads one picture.", expected="no second text", action="Leave it out.")
    return _inputs(config, text, _seen(config, text))


def own_picture(config: ModelConfig, text: str) -> Picture:
    """The picture that `text` names, as the model sees it; raises UserError."""
    height, width = config.picture_height, config.picture_width
    pixels = np.broadcast_to(_seen(config, text), (height, width, 3))
    n_rows, n_columns = config.patch_grid
    return Picture(text=text, pixels=pixels, n_rows=n_rows, n_columns=n_columns, n_first=1)


def noise_pictures(config: ModelConfig, n: int, seed: int) -> list[Inputs]:
    """Pictures of random pixels, determined by the seed."""
    rng = np.random.default_rng(seed)
    shape = (config.picture_height, config.picture_width, config.n_channels)
    return [_inputs(config, "", rng.integers(0, 256, shape, dtype=np.uint8)) for _ in range(n)]


def _seen(config: ModelConfig, text: str) -> NDArray[np.uint8]:
    return fitted_pixels(read_picture(text), config.picture_height, config.picture_width, config.n_channels)


def _inputs(config: ModelConfig, text: str, pixels: NDArray[np.uint8]) -> Inputs:
    numbers = patch_numbers(pixels[None], config.patch_size)[0]  # [n_tokens, n_numbers]
    tokens = patch_tokens(text, config.patch_grid, config.n_patch_tokens)
    return Inputs(source=tokens, patches=tuple(map(tuple, numbers.tolist())))


@runtime_checkable
class ReadsPictures(Protocol):
    """A network whose text is the path of a picture."""

    def picture(self, text: str) -> Picture:
        """The picture as the model sees it; raises UserError if it is unreadable or not a grid of patches."""
        ...


def picture(model: "Model", text: str) -> Picture:
    """The picture whose path is `text`, as the model sees it; raises UserError for a model of text."""
    network = model.network
    if model.info.reads != "picture" or not isinstance(network, ReadsPictures):
        raise UserError(
            f"{model.info.name} reads no pictures.",
            expected="a vision model, such as a ViT",
            action="Open one from its folder, or look at the heatmap.",
        )
    return network.picture(text)


def picture_of_tokens(source: Tokens) -> Picture | None:
    """The picture under the tokens of a stored trace, without its model: from its path, not resized.

    None where the tokens are no patches, or the picture is not there any more.
    """
    grid = patch_grid(source)
    if grid is None:
        return None
    try:
        pixels = read_picture(source.text)
    except UserError:
        return None
    n_rows, n_columns = grid
    n_first = len(source) - n_rows * n_columns
    return Picture(text=source.text, pixels=pixels, n_rows=n_rows, n_columns=n_columns, n_first=n_first)


def picture_under(model: "Model", text: str) -> Picture | None:
    """The picture under maps of patches; None for a text, or without a grid of patches."""
    if model.info.reads != "picture":
        return None
    try:
        return picture(model, text)
    except UserError:
        return None
