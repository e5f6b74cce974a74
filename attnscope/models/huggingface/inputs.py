"""From a user's text, picture or recording to the arguments of a library model.

Pictures as a vision model reads them: a file, its pixels prepared, and one token for each patch.

The "text" of such a model is the path of a picture. Its tokens are what the model's attention sees:
special ones first (a class token, registers), then the patches line by line, written `row,column`.

| symbol | meaning                                  | shape                       |
|--------|------------------------------------------|-----------------------------|
| pixels | colours, rescaled and normalised         | [1, 3, height, width]       |

Speech as a model reads it: a WAV file, its spectrum, and one token for each moment of it.

The "text" of such a model is the path of a recording. Its tokens are the positions of the encoder, written
as seconds. The spectrum is computed by the library's own feature extractor from numbers checked here.

| symbol   | meaning                          | shape                     |
|----------|----------------------------------|---------------------------|
| samples  | air pressure, −1…1               | [n_samples]               |
| features | logarithm of the mel spectrum    | [1, n_mels, n_frames]     |
"""

import math
import wave
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, TypeGuard

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from attnscope.errors import LoadError, UserError
from attnscope.models.huggingface.config import SpecialIds, read_processor
from attnscope.models.huggingface.tokenizer_files import HuggingFaceVocabulary
from attnscope.models.inputs import MAX_FIRST, Inputs, begun, patch_tokens
from attnscope.models.network import NoTokens, TokensById
from attnscope.records.maps import Picture
from attnscope.records.models import Form
from attnscope.records.tokens import Token, Tokens, typed_segments
from attnscope.text.pictures import read_picture
from attnscope.trace.tensor_file import require_regular_file

_BILINEAR, _N_FILTERS = 2, 6
"""Filters are numbered as in Pillow: nearest, Lanczos, bilinear, bicubic, box, Hamming."""
_SQUARED = ("DeiT", "Flava")
"""Those that crop and take a single number for both sides, not for the shorter one (transformers 5.23)."""
_NO_PROCESSOR = (
    "Its folder has no preprocessor_config.json: pictures are read with colours from −1 to 1, which may not "
    "be those it was trained on."
)
MAX_SIDE = 2_048
"""The largest picture, in pixels a side, that a processor's file may ask for."""
_A_SIDE = f"whole numbers of pixels from 1 to {MAX_SIDE:,}"
_MOST_RESIZED = 50_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """Converts a picture to pixels; sizes in pixels.

    It is resized to `resized` or, keeping its shape, until its shorter side is `shortest`; then height ×
    width are cut out of its middle. Without both it is resized to height × width at once. `filter` is
    Pillow's number. `note` tells what the folder leaves open, and what was taken instead.
    """

    height: int
    width: int
    shortest: int | None = None
    resized: tuple[int, int] | None = None
    filter: int = _BILINEAR
    rescale: float = 1 / 255
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    deviation: tuple[float, ...] = (0.5, 0.5, 0.5)
    note: str = ""


def read_preparation(folder: Path, image_size: tuple[int, int]) -> Preparation:
    """The preparation described by a folder's processor; raises LoadError if it is invalid.

    Its own crop or size is what the model was made for; `image_size` counts where it names none.
    """
    values, path = read_processor(folder, "image_processor")
    size, crops = values.get("size"), values.get("do_center_crop", "crop_size" in values)
    shortest = size.get("shortest_edge") if isinstance(size, dict) else None
    kind = str(values.get("image_processor_type") or values.get("feature_extractor_type") or "")
    if isinstance(size, int) and crops and not kind.startswith(_SQUARED):
        shortest = size
    if shortest is not None and not _is_side(shortest):
        raise _impossible(path, "size", _A_SIDE)
    own = _sides(values.get("crop_size"), path, "crop_size") if crops else None
    resized = _sides(size, path, "size") if shortest is None and values.get("do_resize", True) else None
    height, width = own or resized or image_size
    note = "" if values else _NO_PROCESSOR
    if shortest is not None and own is None:
        note = (
            f"Its processor keeps the shape of a picture: {height} × {width} pixels of its middle are read."
        )
    mean, deviation = (_colours(values, key, path) for key in ("image_mean", "image_std"))
    is_normalised = values.get("do_normalize", True)
    rescale = values.get("rescale_factor", 1 / 255) if values.get("do_rescale", True) else 1.0
    if not _is_number(rescale) or not rescale:
        raise _impossible(path, "rescale_factor", "a number other than 0")
    number = values.get("resample")
    resample = _BILINEAR if number is None else number
    if type(resample) is not int or not 0 <= resample < _N_FILTERS:
        raise _impossible(path, "resample", "the number of a filter of Pillow, 0 to 5")
    return Preparation(
        height=height,
        width=width,
        shortest=shortest,
        resized=resized,
        filter=resample,
        rescale=float(rescale),
        mean=mean if is_normalised else (0.0,) * 3,
        deviation=deviation if is_normalised else (1.0,) * 3,
        note=note,
    )


def prepared_pixels(picture: NDArray[np.uint8], how: Preparation) -> Tensor:
    """Pixels of a picture: resized, cut out of the middle, rescaled, normalised; float32 [1, 3, H, W].

    Raises UserError for one so long and narrow that it would become too large.
    """
    from PIL import Image

    height, width = picture.shape[:2]
    if how.shortest is None:
        size = how.resized or (how.height, how.width)
    else:
        short = min(height, width)
        size = (height * how.shortest // short, width * how.shortest // short)  # as the library cuts it off
    if size[0] * size[1] > _MOST_RESIZED:
        raise UserError(
            f"The picture has {width:,} × {height:,} pixels: with a shorter side of {how.shortest:,}, as the "
            f"model reads it, there would be {size[1]:,} × {size[0]:,}.",
            expected=f"at most {_MOST_RESIZED:,} pixels",
            action="Crop it.",
        )
    resized = Image.fromarray(picture).resize(size[::-1], Image.Resampling(how.filter))
    pixels = torch.from_numpy(np.array(resized)).permute(2, 0, 1)[None].float()  # [1, 3, height, width]
    if size != (how.height, how.width):
        top, left = (size[0] - how.height) // 2, (size[1] - how.width) // 2
        pixels = functional.pad(pixels, (-left, how.width - size[1] + left, -top, how.height - size[0] + top))
    mean, deviation = (torch.tensor(v)[None, :, None, None] for v in (how.mean, how.deviation))
    return (pixels * how.rescale - mean) / deviation


def seen_pixels(pixels: Tensor, how: Preparation) -> NDArray[np.uint8]:
    """The colours [height, width, 3] of the output of `prepare`, with its last step undone."""
    mean, deviation = (torch.tensor(v)[:, None, None] for v in (how.mean, how.deviation))
    colours = (pixels[0].cpu() * deviation + mean) / how.rescale  # [3, height, width]
    shown: NDArray[np.uint8] = colours.clamp(0, 255).round().to(torch.uint8).permute(1, 2, 0).numpy()
    return shown


def _colours(values: Mapping[str, Any], key: str, path: Path) -> tuple[float, ...]:
    found = values.get(key, [0.5, 0.5, 0.5])
    found = [found] * 3 if _is_number(found) else found
    if not isinstance(found, list) or len(found) != 3 or not all(map(_is_number, found)):
        raise _impossible(path, key)
    if key == "image_std" and not all(found):
        raise _impossible(path, key)
    return tuple(float(n) for n in found)


def _sides(value: object, path: Path, key: str) -> tuple[int, int] | None:
    """Height and width in a processor's notation; None if it has none."""
    if value is None or (isinstance(value, dict) and not {"height", "width"} <= value.keys()):
        return None
    if isinstance(value, list):
        height, width = value if len(value) == 2 else (None, None)
    else:
        height, width = (value["height"], value["width"]) if isinstance(value, dict) else (value, value)
    if not _is_side(height) or not _is_side(width):
        raise _impossible(path, key, _A_SIDE)
    return height, width


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_side(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_SIDE


def _impossible(path: Path, key: str, expected: str = "numbers for three colours") -> LoadError:
    return LoadError(
        f"{path} cannot be used: its {key} has no usable value.",
        kind="config",
        expected=expected,
        action="Restore it from the model's origin.",
    )


class Reader(Protocol):
    """Converts texts into a model's arguments."""

    @property
    def vocabulary(self) -> TokensById:
        """The tokens it gives."""

    @property
    def max_tokens(self) -> int:
        """Maximum number of source tokens."""

    @property
    def reads_pairs(self) -> bool:
        """Whether a source can consist of two texts."""

    def encode(self, text: str, target: str | None) -> Inputs:
        """Encode both texts; raises UserError for a target that is not read."""

    def own_target(self, inputs: Inputs, written: Sequence[int]) -> Inputs:
        """The same inputs with the model's generated text as their target."""

    def arguments(self, inputs: Inputs, device: torch.device, n_copies: int) -> dict[str, Tensor]:
        """Arguments of the model's forward for `n_copies` of the same text."""

    def source_arguments(self, ids: Sequence[int], device: torch.device) -> dict[str, Tensor]:
        """Arguments of an encoder–decoder's encoder for a source of these ids."""


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
        """Two texts need a template that separates them, and a model that does not generate."""
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
        """Read a typed separator between two texts as their template would."""
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
        """A model that does not generate reads its source again, shifted by one position."""
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
            again = Tokens(text=text, tokens=begun(tokens))
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
        prefix = (self._start_id(), *self.special.forced)
        return self.vocabulary.encode(
            text, max_tokens=self.max_target, prefix=prefix, suffix=(), is_target=True
        ).tokens

    def _start_id(self) -> int:
        if self.special.start is not None:
            return self.special.start
        return self.vocabulary.begin_id

    def _something(self) -> tuple[int, ...]:
        """A model cannot read an empty text."""
        return (self.vocabulary.begin_id,) if self.vocabulary.has("begin") else (0,)


class PictureVocabulary(NoTokens):
    """The tokens of a vision model: patches, which have no text."""

    kind = "patches"

    def missing(self, what: str) -> UserError:
        return UserError(
            "A vision model has no special tokens.",
            expected="a model that reads text",
            action="Open a model that reads text for this.",
        )

    def token(self, id: int) -> Token:
        return Token(id=id, piece=str(id))

    def decode(self, ids: Sequence[int]) -> str:
        """Patches have no text."""
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
        """The picture as the model sees it; raises UserError if its tokens are not a grid of patches."""
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
    """The pixels of a picture, cached until the file changes (`changed` is its time)."""
    return prepared_pixels(read_picture(text), how)


def _rows(ids: Sequence[int], device: torch.device, n_copies: int) -> Tensor:
    return torch.tensor([list(ids)], dtype=torch.int64, device=device).expand(n_copies, -1)


def sizes_of(value: Any, default: int) -> tuple[int, int]:
    """A height and a width from a number or a pair."""
    if isinstance(value, (list, tuple)) and len(value) == 2:
        return int(value[0]), int(value[1])
    number = value if isinstance(value, int) and not isinstance(value, bool) else default
    return number, number


_LIMITS = {
    "feature_size": (80, 1, 1_024),
    "sampling_rate": (16_000, 1_000, 200_000),
    "hop_length": (160, 1, 10_000),
    "chunk_length": (30, 1, 600),
    "n_fft": (400, 2, 65_536),
}
"""Each number of the spectrum: default, least, most."""
_ACTION = "Type the path of a 16-bit WAV file."
_SPOKEN = ("<|en|>", "<|transcribe|>", "<|notimestamps|>")


def read_extractor(folder: Path, library: Any, config: Any) -> Any:
    """The library's feature extractor with the numbers of the folder's processor, else those of its
    configuration. Raises LoadError, also if the two differ.
    """
    values, path = read_processor(folder, "feature_extractor", "audio_processor")
    n_mels, n_frames = int(config.num_mel_bins), 2 * int(config.max_source_positions)
    rate, hop = (values.get(key, _LIMITS[key][0]) for key in ("sampling_rate", "hop_length"))
    asked = {"feature_size": n_mels}
    if isinstance(rate, int) and isinstance(hop, int) and rate and n_frames * hop % rate == 0:
        asked["chunk_length"] = n_frames * hop // rate
    numbers: dict[str, int] = {}
    for key, (default, least, most) in _LIMITS.items():
        number = values.get(key, asked.get(key, default))
        if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
            raise LoadError(
                f"{path} cannot be used: {key} is {str(number)[:40]!r}.",
                kind="config",
                expected=f"a whole number from {least} to {most}",
                action="Restore it from the model's origin.",
            )
        numbers[key] = number
    extractor = library.WhisperFeatureExtractor(**numbers)
    found = (extractor.feature_size, extractor.nb_max_frames)
    if found != (n_mels, n_frames):
        raise LoadError(
            f"The sound processor of {folder} gives {found[0]} mel bins in {found[1]:,} frames; its model "
            f"reads {n_mels} in {n_frames:,}.",
            kind="config",
            expected=f"the {path.name} that was saved with the model",
            action="Restore it from the model's origin.",
        )
    return extractor


def speaking_prefix(vocabulary: HuggingFaceVocabulary) -> tuple[int, ...]:
    """Tokens between the start and the words: English, transcribed, without times."""
    found = (vocabulary.id_of(piece) for piece in _SPOKEN)
    return tuple(id for id in found if id is not None)


def read_sound(text: str, rate: int, most_s: int) -> NDArray[np.float32]:
    """The first `most_s` seconds of a WAV file, one channel at `rate` samples a second; raises UserError."""
    name = text.strip().strip("\"'")
    path = Path(name).expanduser()
    try:
        is_there = bool(name) and path.exists()
    except (OSError, ValueError):
        is_there = False
    if not is_there:
        raise UserError(
            f"There is no recording {name[:200]!r}.", expected="the path of a WAV file", action=_ACTION
        )
    require_regular_file(path)
    try:
        with wave.open(str(path), "rb") as recording:
            n_channels, width, own_rate, *_ = recording.getparams()
            if width != 2 or not 1 <= n_channels <= 64 or not 1_000 <= own_rate <= 4_000_000 // n_channels:
                raise wave.Error(f"it has {8 * width} bits and {n_channels} channels at {own_rate} Hz")
            data = recording.readframes(most_s * own_rate)
    except (wave.Error, EOFError, OSError, RuntimeError) as error:
        reason = str(error) or "it ends too early"  # of Python's reader, where a part is said to be longer
        raise UserError(
            f"{path} cannot be read as a recording: {reason}.", expected="a WAV file", action=_ACTION
        ) from error
    whole = np.frombuffer(data[: len(data) // (2 * n_channels) * 2 * n_channels], dtype="<i2")
    samples: NDArray[np.float32] = whole.reshape(-1, n_channels).mean(axis=1, dtype=np.float32)
    samples = samples / np.float32(32_768)
    if own_rate == rate or not len(samples):
        return samples
    places = np.arange(0, len(samples), own_rate / rate)
    resampled: NDArray[np.float32] = np.interp(places, np.arange(len(samples)), samples).astype(np.float32)
    return resampled


@dataclass(slots=True)
class SoundReader:
    """Reads the recording whose path is the text; the model's output for it is text."""

    words: TextReader
    extractor: Any
    max_tokens: int
    reads_pairs: bool = False
    _kept: dict[str, Tensor] = field(default_factory=dict)
    _last: str = ""

    @property
    def vocabulary(self) -> HuggingFaceVocabulary:
        return self.words.vocabulary

    def encode(self, text: str, target: str | None) -> Inputs:
        self._features(text)
        length_s = self.extractor.chunk_length / self.max_tokens
        moments = tuple(Token(id=i, piece=f"{i * length_s:.2f}s") for i in range(self.max_tokens))
        source = Tokens(text=text, tokens=moments)
        return Inputs(source=source, target=None if target is None else self.words.encode_target(target))

    def own_target(self, inputs: Inputs, written: Sequence[int]) -> Inputs:
        return self.words.own_target(inputs, written)

    def arguments(self, inputs: Inputs, device: torch.device, n_copies: int) -> dict[str, Tensor]:
        found = self.source_arguments((), device, text=inputs.source.text or self._last)
        found = {name: value.expand(n_copies, -1, -1) for name, value in found.items()}
        if inputs.target is not None:
            ids = torch.tensor([list(inputs.target.ids)], dtype=torch.int64, device=device)
            found["decoder_input_ids"] = ids.expand(n_copies, -1)
        return found

    def source_arguments(self, ids: Sequence[int], device: torch.device, text: str = "") -> dict[str, Tensor]:
        """The recording alone, for the encoder; without a name the one read last."""
        return {"input_features": self._features(text or self._last).to(device)}

    def _features(self, text: str) -> Tensor:
        rate: int = self.extractor.sampling_rate
        try:
            changed = Path(text.strip().strip("\"'")).expanduser().stat().st_mtime_ns
        except (OSError, ValueError):
            changed = 0
        key = f"{changed} {text}"
        if key not in self._kept:
            samples = read_sound(text, rate, self.extractor.chunk_length)
            spectrum = self.extractor(samples, sampling_rate=rate, return_tensors="pt")
            self._kept = {key: spectrum["input_features"]}
        self._last = text
        return self._kept[key]
