"""What the measures must know of the queries and keys of a batch: padding, special and rare tokens.

| symbol        | meaning                                         | shape                |
|---------------|-------------------------------------------------|----------------------|
| query_ids     | token ids of the rows, 0 where padded           | [batch, n_queries]   |
| key_ids       | token ids of the columns                        | [batch, n_keys]      |
| query_counts  | rows that are measured                          | [batch, n_queries]   |
| key_counts    | columns whose weights are measured              | [batch, n_keys]      |
| is_special    | special tokens among the keys                   | [batch, n_keys]      |
| is_rare       | the two least frequent tokens among the keys    | [batch, n_keys]      |
| end           | place of a last special token, −1 without one   | [batch]              |
| places        | 0, 1, 2 …: the numbers of rows and of columns   | [the longer of both] |
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.records.axes import axes_of, is_self_attention, tokens_of_site
from attnscope.records.measures import SpecialTokens
from attnscope.records.sites import Site
from attnscope.records.tokens import Token, Tokens

N_RARE = 2
"""Voita et al. 2019 (section 5.3) count the two least frequent tokens of a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Facts:
    """The rows and columns of a batch of maps; see the module's legend."""

    query_ids: Tensor
    key_ids: Tensor
    query_counts: Tensor
    key_counts: Tensor
    is_special: Tensor
    is_rare: Tensor
    end: Tensor
    places: Tensor
    is_self: bool
    has_ends: bool
    is_whole: bool
    specials: SpecialTokens

    @property
    def n_keys(self) -> int:
        """Columns, padding included."""
        return self.key_ids.shape[1]


def build_facts(
    queries: Sequence[Sequence[Token]],
    keys: Sequence[Sequence[Token]],
    *,
    is_self: bool,
    specials: SpecialTokens = "kept",
    frequencies: Mapping[int, int] | None = None,
    device: torch.device | str = "cpu",
) -> Facts:
    """The facts of a batch, each text filled up on the right to the longest.

    `frequencies` counts ids in a corpus; without it no token is rare. A text of nothing but special
    tokens keeps no row when they are dropped.
    """
    drops = specials != "kept"
    n_queries, n_keys = max(map(len, queries)), max(map(len, keys))
    rows, columns = _kept(queries, drops), _kept(keys, drops)
    special = [[token.is_special for token in one] for one in keys]
    rare = [_rare(one, frequencies) for one in keys]
    ends = [len(one) - 1 if len(one) > 1 and one[-1].is_special else -1 for one in keys]
    has_one_length = min(map(len, rows)) == n_queries and min(map(len, columns)) == n_keys
    return Facts(
        query_ids=_padded([[token.id for token in one] for one in queries], n_queries, device),
        key_ids=_padded([[token.id for token in one] for one in keys], n_keys, device),
        query_counts=_padded(rows, n_queries, device).bool(),
        key_counts=_padded(columns, n_keys, device).bool(),
        is_special=_padded(special, n_keys, device).bool(),
        is_rare=_padded(rare, n_keys, device).bool(),
        end=torch.tensor(ends, device=device),
        places=torch.arange(max(n_queries, n_keys), device=device),
        is_self=is_self,
        has_ends=max(ends) >= 0,
        is_whole=has_one_length and all(map(all, (*rows, *columns))),
        specials=specials,
    )


def facts_of_site(
    site: Site,
    sources: Sequence[Tokens],
    targets: Sequence[Tokens] | None,
    *,
    specials: SpecialTokens = "kept",
    source_frequencies: Mapping[int, int] | None = None,
    target_frequencies: Mapping[int, int] | None = None,
    device: torch.device | str = "cpu",
) -> Facts:
    """The facts of one kind of site: what stands at its rows and columns, and how often that occurs."""
    pairs: Sequence[Tokens | None] = [None] * len(sources) if targets is None else targets
    both = [tokens_of_site(site, source, target) for source, target in zip(sources, pairs, strict=True)]
    columns = axes_of(site.stack, (site,), has_target=targets is not None)[1]
    counted = {"source": source_frequencies, "target": target_frequencies}
    return build_facts(
        [queries for queries, _ in both],
        [keys for _, keys in both],
        is_self=is_self_attention(site),
        specials=specials,
        frequencies=counted.get(columns),
        device=device,
    )


def _kept(texts: Sequence[Sequence[Token]], drops_special: bool) -> list[list[bool]]:
    return [[not (drops_special and token.is_special) for token in one] for one in texts]


def _rare(tokens: Sequence[Token], frequencies: Mapping[int, int] | None) -> list[bool]:
    """The two least frequent words, special tokens left out; none in texts of two words.

    Of equally frequent words the one of the larger id counts as rarer: vocabularies are made in the order
    of frequency in what the tokenizer was trained on.
    """
    ids = {token.id for token in tokens if not token.is_special}
    if frequencies is None or len(ids) <= N_RARE:
        return [False] * len(tokens)
    rare = set(sorted(ids, key=lambda id: (frequencies.get(id, 0), -id))[:N_RARE])
    return [not token.is_special and token.id in rare for token in tokens]


def _padded(rows: Sequence[Sequence[int]], length: int, device: torch.device | str) -> Tensor:
    filled = [[int(value) for value in row] + [0] * (length - len(row)) for row in rows]
    return torch.tensor(filled, dtype=torch.int64, device=device).reshape(len(rows), length)
