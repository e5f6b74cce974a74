"""From a person's text, or the path of a picture, to what a model of the library is called with."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from attnscope.errors import UserError
from attnscope.models.huggingface.facts import SpecialIds
from attnscope.models.huggingface.images import (
    Preparation,
    prepared_pixels,
    seen_pixels,
)
from attnscope.models.huggingface.vocabulary import HuggingFaceVocabulary
from attnscope.models.inputs import Inputs
from attnscope.models.network import TokensById
from attnscope.models.patches import MAX_FIRST, patch_tokens
from attnscope.records.models import Form
from attnscope.records.pictures import Picture
from attnscope.records.tokens import Token, Tokens, typed_segments
from attnscope.text.pictures import read_picture
from attnscope.text.vocabulary import Vocabulary as Entries


class Reader(Protocol):
    """What turns texts into a model's arguments."""

    @property
    def vocabulary(self) -> TokensById:
        """The tokens it gives."""

    @property
    def max_tokens(self) -> int:
        """The most tokens of a source."""

    @property
    def reads_pairs(self) -> bool:
        """Whether two texts may stand in one source."""

    def encode(self, text: str, target: str | None) -> Inputs:
        """Both texts as tokens; raises UserError for a target that is not read."""

    def own_target(self, inputs: Inputs, written: Sequence[int]) -> Inputs:
        """The same inputs with what the model wrote as their target."""

    def arguments(self, inputs: Inputs, device: torch.device, n_copies: int) -> dict[str, Tensor]:
        """What the model's forward is called with, `n_copies` times the same text."""

    def source_arguments(self, ids: Sequence[int], device: torch.device) -> dict[str, Tensor]:
        """What the encoder of an encoder–decoder is called with for a source of these ids."""


class TextReader:
    """Reads texts with a model's own tokenizer."""

    def __init__(
        self,
        vocabulary: HuggingFaceVocabulary,
        special: SpecialIds,
        *,
        form: Form,
        max_tokens: int,
        max_target: int,
        has_segments: bool,
        is_writing: bool,
    ) -> None:
        self.vocabulary, self.special = vocabulary, special
        self.max_tokens, self.max_target = max_tokens, max_target
        self.has_segments = has_segments
        self._form, self._is_writing = form, is_writing

    @property
    def reads_pairs(self) -> bool:
        """Two texts need a template that puts something between them, and a model that does not write."""
        return self._form != "decoder" and not self._is_writing and bool(self.vocabulary.template.middle)

    def encode(self, text: str, target: str | None) -> Inputs:
        if self._form == "encoder-decoder" and self._is_writing:
            source = self.vocabulary.encode(text, max_tokens=self.max_tokens).tokens
            return Inputs(source=source, target=None if target is None else self.encode_target(target))
        if target is not None and target.strip():
            inputs = self._pair(text, target)
        else:
            one = self.vocabulary.encode(text, max_tokens=self.max_tokens)
            if not len(one.tokens):
                one = self.vocabulary.encode(text, max_tokens=self.max_tokens, prefix=self._something())
            inputs = Inputs(source=one.tokens, segments=self._typed_segments(one.tokens))
        return self._moved(inputs) if self._form == "encoder-decoder" else inputs

    def _typed_segments(self, tokens: Tokens) -> tuple[int, ...]:
        """Two texts with the separator typed between them are read as two, as their template would."""
        second = self.vocabulary.template.second_segment if self.reads_pairs else 0
        return tuple(second * number for number in typed_segments(tokens.tokens)) if second else ()

    def _pair(self, text: str, target: str) -> Inputs:
        if not self.reads_pairs:
            raise UserError(
                "This model reads one text only.",
                expected="no second text",
                action="Leave the second text out, or open a translation model.",
            )
        pair = self.vocabulary.encode_pair(text, target, max_tokens=self.max_tokens)
        return Inputs(source=pair.tokens, segments=pair.segments)

    def _moved(self, inputs: Inputs) -> Inputs:
        """A model that does not write reads its source again, moved by one place."""
        start = (self.vocabulary.token(self._start_id()),)
        kept = tuple(replace(token, start=0, end=0) for token in inputs.source.tokens[:-1])
        return replace(inputs, target=Tokens(text="", tokens=start + kept))

    def own_target(self, inputs: Inputs, written: Sequence[int]) -> Inputs:
        if not self._is_writing:
            return inputs
        ids = (self._start_id(), *written)
        text = self.vocabulary.decode(written)
        again = self.encode_target(text)
        if again.ids != ids:
            tokens = tuple(replace(self.vocabulary.token(id), start=0, end=0) for id in ids)
            again = Tokens(text=text, tokens=tokens)
        return Inputs(source=inputs.source, target=again, is_own_target=True)

    def arguments(self, inputs: Inputs, device: torch.device, n_copies: int) -> dict[str, Tensor]:
        ids = _rows(inputs.source.ids, device, n_copies)
        found = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if self.has_segments and any(inputs.segments):
            found["token_type_ids"] = _rows(inputs.segments, device, n_copies)
        if inputs.target is not None:
            found["decoder_input_ids"] = _rows(inputs.target.ids, device, n_copies)
        return found

    def source_arguments(self, ids: Sequence[int], device: torch.device) -> dict[str, Tensor]:
        rows = _rows(ids, device, 1)
        return {"input_ids": rows, "attention_mask": torch.ones_like(rows)}

    def encode_target(self, text: str) -> Tokens:
        """A target with what the model begins it with."""
        prefix = (self._start_id(), *self.special.forced)
        return self.vocabulary.encode(
            text, max_tokens=self.max_target, prefix=prefix, suffix=(), is_target=True
        ).tokens

    def _start_id(self) -> int:
        if self.special.start is not None:
            return self.special.start
        return self.vocabulary.begin_id

    def _something(self) -> tuple[int, ...]:
        """A model cannot read nothing at all."""
        return (self.vocabulary.begin_id,) if self.vocabulary.has("begin") else (0,)


class PictureVocabulary:
    """The tokens of a vision model: patches, which have no text."""

    kind = "patches"

    def has(self, role: str) -> bool:
        return False

    @property
    def begin_id(self) -> int:
        """There is none: raises UserError, as all these do."""
        raise _no_token()

    @property
    def end_id(self) -> int:
        raise _no_token()

    @property
    def mask_id(self) -> int:
        raise _no_token()

    @property
    def entries(self) -> Entries:
        raise _no_token()

    def token(self, id: int) -> Token:
        """A patch by its number."""
        return Token(id=id, piece=str(id))

    def decode(self, ids: Sequence[int]) -> str:
        """Patches spell nothing."""
        return ""


class PictureReader:
    """Reads the picture whose path is the text."""

    reads_pairs = False

    def __init__(self, how: Preparation, *, patch_size: tuple[int, int], n_tokens: int) -> None:
        self.vocabulary = PictureVocabulary()
        self.max_tokens = n_tokens
        self._how = how
        self.picture_px, self.note = (how.height, how.width), how.note
        self._grid = (how.height // patch_size[0], how.width // patch_size[1])

    def encode(self, text: str, target: str | None) -> Inputs:
        if target is not None and target.strip():
            raise UserError(
                "This model reads one picture.", expected="no second text", action="Leave it out."
            )
        self._pixels(text)
        return Inputs(source=patch_tokens(text, self._grid, self.max_tokens))

    def picture(self, text: str) -> Picture:
        """What the model sees of it; raises UserError where its tokens are no grid of patches."""
        n_rows, n_columns = self._grid
        n_first = self.max_tokens - n_rows * n_columns
        if not 0 <= n_first <= MAX_FIRST:
            raise UserError(
                f"This model makes {self.max_tokens} tokens of a picture.",
                expected=f"{n_rows} × {n_columns} patches and at most {MAX_FIRST} tokens before them",
                action="Look at the heatmap, whose tokens are numbered.",
            )
        pixels = seen_pixels(self._pixels(text), self._how)
        return Picture(text=text, pixels=pixels, n_rows=n_rows, n_columns=n_columns, n_first=n_first)

    def own_target(self, inputs: Inputs, written: Sequence[int]) -> Inputs:
        return inputs

    def arguments(self, inputs: Inputs, device: torch.device, n_copies: int) -> dict[str, Tensor]:
        pixels = self._pixels(inputs.source.text).to(device)
        return {"pixel_values": pixels.expand(n_copies, -1, -1, -1)}

    def source_arguments(self, ids: Sequence[int], device: torch.device) -> dict[str, Tensor]:
        """There is no encoder–decoder of pictures."""
        return {}

    def _pixels(self, text: str) -> Tensor:
        try:
            changed = Path(text.strip().strip("\"'")).expanduser().stat().st_mtime_ns
        except (OSError, ValueError):
            changed = 0
        return _prepared(text, changed, self._how)


@lru_cache(maxsize=2)
def _prepared(text: str, changed: int, how: Preparation) -> Tensor:
    """The pixels of a picture, kept while the file stays as it was (`changed` is its time)."""
    return prepared_pixels(read_picture(text), how)


def _rows(ids: Sequence[int], device: torch.device, n_copies: int) -> Tensor:
    return torch.tensor([list(ids)], dtype=torch.int64, device=device).expand(n_copies, -1)


def _no_token() -> UserError:
    return UserError(
        "A vision model has no special tokens.",
        expected="a model that reads text",
        action="Open a model that reads text for this.",
    )


def sizes_of(value: Any, default: int) -> tuple[int, int]:
    """A height and a width from a number or a pair."""
    if isinstance(value, (list, tuple)) and len(value) == 2:
        return int(value[0]), int(value[1])
    number = value if isinstance(value, int) and not isinstance(value, bool) else default
    return number, number
