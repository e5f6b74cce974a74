"""Labelled pictures as batches: the numbers of their patches, and a label of each picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from attnscope.nn.patches import patch_numbers
from attnscope.text.corpora import split_pairs
from attnscope.text.examples import Example
from attnscope.text.pictures import LabelledPictures, fitted, read_labelled_pictures, read_picture
from attnscope.training.batches import ExampleBatches, Ids
from attnscope.training.objectives import Batch
from attnscope.training.recipe import Recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureRows:
    """Pictures [n, height, width, n_channels], uint8, and the number of the label of each, [n]."""

    pixels: NDArray[np.uint8]
    labels: Ids
    patch_size: int

    @property
    def total_lengths(self) -> Ids:
        """Tokens of each picture: all have as many."""
        _, height, width, _ = self.pixels.shape
        n_patches = (height // self.patch_size) * (width // self.patch_size)
        return np.full(len(self.pixels), 1 + n_patches, dtype=np.int64)

    def batch(self, rows: Ids) -> Batch:
        """The pictures of these rows with their labels; the class token of each is scored."""
        numbers = patch_numbers(self.pixels[rows], self.patch_size)  # [B, T, n_numbers]
        return Batch(
            ids=torch.from_numpy(numbers),
            scored=torch.arange(len(rows)) * numbers.shape[1],
            labels=torch.from_numpy(self.labels[rows]),
        )


def pictures_of_task(examples: Sequence[Example], shape: tuple[int, int, int]) -> LabelledPictures:
    """The pictures that the sources of a task name, all of one `shape` (height, width, channels)."""
    pixels = np.stack([fitted(read_picture(example.source), *shape) for example in examples])
    return LabelledPictures(pixels=pixels, labels=tuple(example.label for example in examples))


def read_and_split_pictures(recipe: Recipe) -> tuple[LabelledPictures, LabelledPictures]:
    """The pictures of a recipe's file or folder, to train on and held out: none is on both sides."""
    found = read_labelled_pictures(Path(recipe.data.path))
    numbered = [(pixels.tobytes().hex(), i) for i, pixels in enumerate(found.pixels)]
    training, held_out = (
        [i for _, i in side] for side in split_pairs(numbered, recipe.data.validation_share)
    )
    return _some(found, training), _some(found, held_out)


def picture_batches(
    recipe: Recipe, training: LabelledPictures, held_out: LabelledPictures, labels: Sequence[str]
) -> ExampleBatches[PictureRows]:
    """Batches of pictures; `labels` are the names in the order of the model's outputs."""
    number = {label: i for i, label in enumerate(labels)}
    sides = (
        PictureRows(
            pixels=side.pixels,
            labels=np.array([number[label] for label in side.labels], dtype=np.int64),
            patch_size=recipe.model.patch_size,
        )
        for side in (training, held_out)
    )
    return ExampleBatches.of_recipe(recipe, *sides)


def _some(pictures: LabelledPictures, rows: Sequence[int]) -> LabelledPictures:
    chosen = tuple(pictures.labels[row] for row in rows)
    return LabelledPictures(pixels=pictures.pixels[list(rows)], labels=chosen)
