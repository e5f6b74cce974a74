"""From tokens to words, by their positions in the text, for a whole batch at once.

| symbol   | meaning                                        | shape                                |
|----------|------------------------------------------------|--------------------------------------|
| to_query | 1 / pieces of the word, where a piece is its   | [n_words, n_queries]                 |
| to_key   | 1 where a piece is of the word                 | [n_words, n_keys]                    |
| between  | to_query · weights · to_keyᵀ                   | [batch, n_heads, n_words, n_words]   |

Weights to a word are summed over its pieces, weights from a word averaged over them (Clark et al. 2019,
section 4.1). Special tokens are of no word: their rows and columns fall away, and the largest weight
among words is the same whether the rest is renormalised or not.

Gold word alignments from files: Pharaoh (`0-0 1-2`) and talp (`1-1 2p3`), one line for each pair.

`-` joins sure links, `p` or `?` joins possible ones (Och and Ney 2003). Files write source-target; a Link
here is (target, source), counted from 0. The pairs have a tab between source and target, whose words stand
between blanks; with two more columns, source and target again with a blank after each word, the first two may
be written as usual: that is what a model then reads.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from attnscope.analysis.model_adapter import QuietProbe
from attnscope.counting import plural, there_are
from attnscope.errors import LoadError
from attnscope.nn import Call, log_weights
from attnscope.paths import resources_folder
from attnscope.records.findings import GoldFiles
from attnscope.records.sites import SiteKey, Stack
from attnscope.records.tokens import Token
from attnscope.text.corpora import read_lines, read_pair_columns
from attnscope.trace.record import finite_weights

Span = tuple[int, int]
"""First character and the one after the last."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WordMaps:
    """The words that pieces belong to: both float32, see the module's legend."""

    to_query: Tensor
    to_key: Tensor


class WordProbe(QuietProbe):
    """Weights between the words of a batch at the sites of some stacks; read `between` after the pass.

    `between` is [batch, n_heads, n_words, n_words], padded with 0. Where a rule is causal, a word sees the
    words before it and itself: `is_causal` says so of each site.
    """

    def __init__(self, stacks: Collection[Stack], maps: WordMaps) -> None:
        self._stacks, self._maps = stacks, maps
        self.between: dict[SiteKey, Tensor] = {}
        self.is_causal: dict[SiteKey, bool] = {}

    def wants(self, site: SiteKey) -> bool:
        return site[0] in self._stacks

    def record(self, site: SiteKey, call: Call, *, lse: Tensor, out: Tensor, is_training: bool) -> None:
        """Keep the weights between words."""
        logs = log_weights(call.q, call.k, lse, rule=call.rule, score=call.score)
        weights = finite_weights(logs.exp_())  # [B, H, Q, T]
        self.between[site] = (
            self._maps.to_query[:, None] @ weights @ self._maps.to_key[:, None].transpose(2, 3)
        )  # [B, H, W, W]
        self.is_causal[site] = call.rule.is_causal


def find_spans(text: str, words: Sequence[str]) -> list[Span] | None:
    """Spans of consecutive words in a text; None if one of them is not found.

    Nothing but blanks may lie between two words.
    """
    spans: list[Span] = []
    place = 0
    for word in words:
        start = text.find(word, place)
        if start < 0 or text[place:start].strip():
            return None
        place = start + len(word)
        spans.append((start, place))
    return spans


def piece_matrix(tokens: Sequence[Token], spans: Sequence[Span]) -> Tensor:
    """1 where a token and a word share characters: float32 [n_words, n_tokens]."""
    starts = torch.tensor([t.start for t in tokens], dtype=torch.int64)
    ends = torch.tensor([-1 if t.is_mark else t.end for t in tokens], dtype=torch.int64)
    firsts = torch.tensor([start for start, _ in spans], dtype=torch.int64)[:, None]
    lasts = torch.tensor([end for _, end in spans], dtype=torch.int64)[:, None]
    return ((starts < lasts) & (ends > firsts)).float()


def word_maps(
    queries: Sequence[Token],
    query_spans: Sequence[Span],
    keys: Sequence[Token],
    key_spans: Sequence[Span],
    *,
    shift: int = 0,
) -> WordMaps:
    """The maps between the words of two texts, or of one.

    `shift` 1 lets the row before a piece stand for it: the row that predicts it.
    """
    to_query = piece_matrix(queries, query_spans)
    if shift:
        to_query = torch.cat([to_query[:, shift:], torch.zeros(len(query_spans), shift)], dim=1)
    n_pieces = to_query.sum(dim=1, keepdim=True).clamp(min=1.0)
    return WordMaps(to_query=to_query / n_pieces, to_key=piece_matrix(keys, key_spans))


def stack_maps(maps: Sequence[WordMaps], device: torch.device | str = "cpu") -> WordMaps:
    """The maps of a batch, padded with 0: [batch, n_words, n_queries] and [batch, n_words, n_keys]."""
    return WordMaps(
        to_query=_stacked([one.to_query for one in maps]).to(device),
        to_key=_stacked([one.to_key for one in maps]).to(device),
    )


def _stacked(matrices: Sequence[Tensor]) -> Tensor:
    n_rows, n_columns = max(m.shape[0] for m in matrices), max(m.shape[1] for m in matrices)
    filled = torch.zeros(len(matrices), n_rows, n_columns)
    for index, matrix in enumerate(matrices):
        filled[index, : matrix.shape[0], : matrix.shape[1]] = matrix
    return filled


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
    """Whether a line has its two texts once more, with different spaces."""
    letters = ["".join(column.split()) for column in row[:4]]
    return letters[:2] == letters[2:]


def read_links(
    path: Path, *, counts_from: int = 0, is_swapped: bool = False
) -> list[tuple[frozenset[Link], frozenset[Link]]]:
    """Sure and possible links of each line; raises LoadError naming a line that cannot be parsed.

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
