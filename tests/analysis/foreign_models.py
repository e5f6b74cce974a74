"""Tiny models of Hugging Face's library, opened from folders as people have them, with words to read."""

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import hf_tiny
from hf_folders import save_folder
from tokenizers import Tokenizer, models, pre_tokenizers

from attnscope.models import Model, load

SPECIALS = ["<pad>", "<s>", "</s>", "<mask>", "<unk>"]
WORDS = [*SPECIALS, *"the a cat dog sat on mat bird animal was good it said".split()]
CLEAN, CORRUPT = "the cat sat on", "the dog sat on"


def word_tokenizer() -> Tokenizer:
    """As many words as the tiny models have pieces, and nothing around a text."""
    entries = WORDS + [f"w{id}" for id in range(len(WORDS), hf_tiny.N_PIECES)]
    made = Tokenizer(models.WordLevel({entry: id for id, entry in enumerate(entries)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.add_special_tokens(SPECIALS)
    return made


@cache
def foreign(family: str) -> Model:
    """A tiny model of a family, on the CPU; nobody may change it."""
    return load(save_folder(Path(mkdtemp()) / family, hf_tiny.build(family), word_tokenizer()), "cpu")


def target_of(family: str) -> str | None:
    """A second text where there must be one."""
    return "a bird" if family in hf_tiny.ENCODER_DECODERS else None
