"""Speech as a model reads it: a WAV file, its spectrum, and one token for each moment of it.

The "text" of such a model is the path of a recording. Its tokens are the positions of the encoder, written
as seconds. The spectrum is computed by the library's own feature extractor from numbers checked here.

| symbol   | meaning                          | shape                     |
|----------|----------------------------------|---------------------------|
| samples  | air pressure, −1…1               | [n_samples]               |
| features | logarithm of the mel spectrum    | [1, n_mels, n_frames]     |
"""

import wave
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscope.errors import LoadError, UserError
from attnscope.models.huggingface.facts import read_processor
from attnscope.models.huggingface.inputs import TextReader
from attnscope.models.huggingface.vocabulary import HuggingFaceVocabulary
from attnscope.models.inputs import Inputs
from attnscope.records.tokens import Token, Tokens
from attnscope.trace.tensor_file import require_regular_file

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


def read_extractor(folder: Path, library: Any) -> Any:
    """The library's feature extractor with the numbers of the folder's processor; raises LoadError."""
    values, path = read_processor(folder, "feature_extractor", "audio_processor")
    numbers: dict[str, int] = {}
    for key, (default, least, most) in _LIMITS.items():
        number = values.get(key, default)
        if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
            raise LoadError(
                f"{path} cannot be used: {key} is {str(number)[:40]!r}.",
                kind="config",
                expected=f"a whole number from {least} to {most}",
                action="Restore it from the model's origin.",
            )
        numbers[key] = number
    return library.WhisperFeatureExtractor(**numbers)


def speaking_prefix(vocabulary: HuggingFaceVocabulary) -> tuple[int, ...]:
    """What stands between the start and the words: English, written down, without times."""
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
    except (wave.Error, EOFError, OSError) as error:
        raise UserError(
            f"{path} cannot be read as a recording: {error}.", expected="a WAV file", action=_ACTION
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
    """Reads the recording whose path is the text; what the model writes of it is text."""

    words: TextReader
    extractor: Any
    max_tokens: int
    reads_pairs: bool = False
    _kept: dict[str, Tensor] = field(default_factory=dict)
    _last: str = ""

    @property
    def vocabulary(self) -> HuggingFaceVocabulary:
        """The tokens of what is written."""
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
        """The recording alone, for the encoder; without a name the one that was read last."""
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
