"""Gold word alignments from files: Pharaoh (`0-0 1-2`) and talp (`1-1 2p3`), one line for each pair.

`-` joins sure links, `p` or `?` joins possible ones (Och and Ney 2003). Files write source-target; a Link
here is (target, source), counted from 0.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from attnscope.analysis.alignment import Link
from attnscope.counting import counted, there_are
from attnscope.errors import LoadError
from attnscope.text.corpora import read_lines

_LINK = re.compile(r"(\d{1,6})([-p?:])(\d{1,6})(p?)")


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignedPair:
    """Two texts with their gold links between words as `split()` counts them; `sure` are also possible."""

    source: str
    target: str
    sure: frozenset[Link]
    possible: frozenset[Link] = frozenset()


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
            f"{there_are(len(links), 'line')} of links for {counted(len(pairs), 'pair')} of texts.",
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
