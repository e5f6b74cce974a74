"""Gold word alignments from files: Pharaoh (`0-0 1-2`) and talp (`1-1 2p3`), one line for each pair.

`-` joins sure links, `p` or `?` joins possible ones (Och and Ney 2003). Files write source-target; a Link
here is (target, source), counted from 0. The pairs have a tab between source and target, whose words stand
between blanks; with two more columns, source and target again with a blank after each word, the first two may
be written as usual: that is what a model then reads.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from attnscope.counting import plural, there_are
from attnscope.errors import LoadError
from attnscope.paths import resources_folder
from attnscope.records.findings import GoldFiles
from attnscope.text.corpora import read_lines, read_pair_columns

Link = tuple[int, int]
"""Target word and source word, both counted from 0."""
_LINK = re.compile(r"(\d{1,6})([-p?:])(\d{1,6})(p?)")


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignedPair:
    """Two texts with their gold links between words as `split()` counts them; `sure` are also possible.

    `usual` are both as people write them, where blanks do not stand between all words: `l'eau` for `l' eau`.
    """

    source: str
    target: str
    sure: frozenset[Link]
    possible: frozenset[Link] = frozenset()
    usual: tuple[str, str] | None = None

    @property
    def texts(self) -> tuple[str, str]:
        """Source and target for a model to read."""
        return self.usual or (self.source, self.target)


def read_gold_files(files: GoldFiles, max_texts: int | None = None) -> list[AlignedPair]:
    """Every pair of two files with its links; raises LoadError."""
    rows = read_pair_columns(Path(files.pairs))[:max_texts]
    links = read_links(Path(files.links), counts_from=files.counts_from)[:max_texts]
    words = [(row[2], row[3]) if _is_in_words(row) else (row[0], row[1]) for row in rows]
    pairs = aligned_pairs(words, links)
    return [replace(pair, usual=(row[0], row[1])) for pair, row in zip(pairs, rows, strict=True)]


@cache
def everyday_pairs() -> tuple[AlignedPair, ...]:
    """The English-French pairs that come with the program, aligned by hand."""
    folder = resources_folder() / "alignments"
    files = GoldFiles(pairs=str(folder / "everyday.tsv"), links=str(folder / "everyday.links"))
    return tuple(read_gold_files(files))


def _is_in_words(row: Sequence[str]) -> bool:
    """Whether a line has its two texts once more, with other blanks."""
    letters = ["".join(column.split()) for column in row[:4]]
    return letters[:2] == letters[2:]


def read_links(
    path: Path, *, counts_from: int = 0, is_swapped: bool = False
) -> list[tuple[frozenset[Link], frozenset[Link]]]:
    """Sure and possible links of each line; raises LoadError naming a line that is not understood.

    `counts_from` is the number of the first word, `is_swapped` says that lines hold target-source.
    """
    return [
        _links(line, number, path, counts_from, is_swapped=is_swapped)
        for number, line in enumerate(read_lines(path), start=1)
    ]


def aligned_pairs(
    pairs: Sequence[tuple[str, str]],
    links: Sequence[tuple[frozenset[Link], frozenset[Link]]],
) -> list[AlignedPair]:
    """Pairs of texts with their links; raises LoadError when counts differ or a link leads nowhere."""
    if len(pairs) != len(links):
        raise LoadError(
            f"{there_are(len(links), 'line')} of links for {plural(len(pairs), 'pair')} of texts.",
            kind="lengths",
            expected="one line of links for each pair",
            action="Give the links of these texts.",
        )
    found: list[AlignedPair] = []
    for number, ((source, target), (sure, possible)) in enumerate(zip(pairs, links, strict=True), start=1):
        n_target, n_source = len(target.split()), len(source.split())
        for t, s in sure | possible:
            if t >= n_target or s >= n_source:
                raise LoadError(
                    f"Line {number} links source word {s} with target word {t}, but the texts have {n_source}"
                    f" and {n_target} words.",
                    kind="no-such-word",
                    expected="links between words of the texts, counted from 0",
                    action="Say that the file counts from 1, or that it writes target-source.",
                )
        found.append(AlignedPair(source=source, target=target, sure=sure, possible=sure | possible))
    return found


def _links(
    line: str, number: int, path: Path, counts_from: int, *, is_swapped: bool
) -> tuple[frozenset[Link], frozenset[Link]]:
    sure: set[Link] = set()
    possible: set[Link] = set()
    for part in line.split():
        match = _LINK.fullmatch(part)
        first = -1 if match is None else int(match[1]) - counts_from
        second = -1 if match is None else int(match[3]) - counts_from
        if match is None or min(first, second) < 0:
            raise LoadError(
                f"Line {number} of {path} has the link {part[:20]!r}.",
                kind="not-links",
                expected=f"links such as {counts_from}-{counts_from} or {counts_from}p{counts_from + 1}",
                action="Correct the line, or choose another file.",
            )
        link = (first, second) if is_swapped else (second, first)
        (possible if match[2] in "p?" or match[4] else sure).add(link)
    return frozenset(sure), frozenset(possible | sure)
