"""Patching in words: what is exchanged, what one cell says, and the samples that are one word apart.

Must not import Qt.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from attnscope.records.causes import PatchMap
from attnscope.records.models import Sample

What = Literal["encoder", "decoder", "head"]
"""The stream of a stack, position by position, or the outputs of heads."""
WHAT_TIPS: dict[What, str] = {
    "encoder": "What enters each layer of the encoder, at one position: a map of layers and positions.",
    "decoder": "What enters each layer of the decoder, at one position: a map of layers and positions.",
    "head": "What a head gives, at every position: a map of layers and heads.",
}
WHAT_NAMES: dict[What, str] = {
    "encoder": "encoder positions",
    "decoder": "decoder positions",
    "head": "heads",
}


def patch_sentence(found: PatchMap, row: int, column: int) -> str:
    """One cell in words; with a row of −1 the largest one, empty where all are missing."""
    if np.isnan(found.patched).all():
        return ""
    is_largest = row < 0
    if is_largest:
        row, column = divmod(int(np.nanargmax(np.abs(found.patched))), len(found.columns))
    value = float(found.patched[row, column])
    if value != value:
        return f"{found.rows[row]} has no head {column}."
    name, layer = found.rows[row].split()
    where = (
        f"{name} L{layer}H{column}"
        if found.kind == "head"
        else f"what enters {name} layer {layer} at “{found.columns[column]}”"
    )
    share = f"{100 * value:.4g} %".replace("-", "−")
    says = f"{where} restores {share} of the difference."
    return f"Strongest: {says}" if is_largest else says[:1].upper() + says[1:]


def end_of_change(first: str, second: str) -> int:
    """Where the first exchanged word of the second text ends, in characters; 0 when none is."""
    same = next((k for k, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), None)
    if same is None:
        return 0
    blank = second.find(" ", same)
    return blank if blank >= 0 else len(second)


def counterpart(text: str, samples: Sequence[Sample]) -> str:
    """The sample that differs from a text in one word; empty when there is none."""
    words = text.split()
    for sample in samples:
        others = sample.text.split()
        if len(others) == len(words) and sum(a != b for a, b in zip(words, others, strict=True)) == 1:
            return sample.text.strip()
    return ""
