"""What views of whole maps share: their numbers, and what a caption says of them."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from attnscope.figures.caption import mask_words
from attnscope.figures.numbers import map_arrays, map_rows
from attnscope.figures.shown_maps import shown_maps, without_special
from attnscope.figures.spec import FigureSpec
from attnscope.records.maps import HeadMap

_MOST_TOKENS_IN_COLUMN = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class MapsFigure(FigureSpec):
    """Maps of heads, cell by cell."""

    maps: tuple[HeadMap, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.maps

    def held_maps(self) -> tuple[HeadMap, ...]:
        return self.maps

    def mapped(self, change: Callable[[HeadMap], HeadMap]) -> Self:
        return replace(self, maps=tuple(map(change, self.maps)))

    def without_special(self) -> Self:
        return self.mapped(without_special)

    def rows(self) -> Iterator[Iterable[str]]:
        return map_rows(self)

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        return map_arrays(self)

    def name_parts(self) -> list[str]:
        maps = shown_maps(self)
        return [*dict.fromkeys(m.head.stack for m in maps), *(m.head.label for m in maps[:3])]


def heads_words(maps: tuple[HeadMap, ...]) -> list[str]:
    """The heads of maps by name, their mask in a word, and what was made of the first."""
    names = [f"{m.head.stack} {m.name or m.head.label}" for m in maps[:12]]
    plural = "head" if len(maps) == 1 else "heads"
    words = [f"{plural} {', '.join(names)}" + (" …" if len(maps) > 12 else "")]
    words += [] if any(one.is_partial for one in maps) else [f"mask {mask_words(maps)}"]
    return words + ([maps[0].note] if maps[0].note else [])


def are_short(maps: tuple[HeadMap, ...]) -> bool:
    """Whether one column of a journal is wide enough for maps."""
    n_tokens = max((max(len(m.queries), len(m.keys)) for m in maps), default=0)
    return 0 < n_tokens <= _MOST_TOKENS_IN_COLUMN
