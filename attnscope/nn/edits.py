"""Changes of single heads in the middle of a pass: edges removed, patterns replaced.

Every change is expressed in the same facts that a record holds (queries, keys, rules), so that a trace
of an edited pass is exact like any other. Edits act on the last text of a batch only: in a pair the
first copy stays as it was. Must not import attention.

A mask that a user has drawn, in the place of the one that a call came with.

    symbol   meaning                                             shape
    cells    True where the query (row) sees the key (column)    [n_queries, n_keys]

Causality and padding stay; a window or a sparse rule goes. A mask that came cell by cell or as intervals
may carry causality itself, so it stays as well. Only the last text of a batch is changed.

Probes for training: gates of heads through which gradients pass, and a head that is guided.

A head of the cross-attention that is told which words translate each other (Garg et al. 2019, sec. 3.3).

| symbol | meaning                                                        | shape         |
|--------|----------------------------------------------------------------|---------------|
| links  | text, target row and source token that translate each other    | [n_links, 3]  |
| loss   | −share · sum over links of the log of the head's weight there  | one number    |
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from attnscope.counting import plural
from attnscope.errors import UserError
from attnscope.nn.masks import CentredWindow, Dense, Edges, Intervals, MaskRule, RemovedCells
from attnscope.nn.scores import BIASES, Bias, ScoreRule, add_sinks, scores_of
from attnscope.records.sites import SiteKey


def check_size(cells: Tensor, n_queries: int, n_keys: int) -> None:
    """Raise UserError if a mask and the call have different numbers of tokens."""
    if tuple(cells.shape) != (n_queries, n_keys):
        raise UserError(
            f"The mask is for {plural(cells.shape[0], 'token')}, but here it is {n_queries} × {n_keys}.",
            expected="a mask for as many tokens as the text has, special tokens counted in",
            action="Draw the mask again for this text.",
        )


def with_drawn_mask(rule: MaskRule, cells: Tensor, n_texts: int) -> MaskRule:
    """The rule of a batch of `n_texts` whose last text is read under `cells`."""
    n_queries, n_keys = cells.shape
    last = cells[None, None]  # [1, 1, Q, T]
    if isinstance(rule.pattern, Dense | Intervals | Edges):
        rows, columns = (torch.arange(n, device=cells.device) for n in (n_queries, n_keys))
        last = last & rule.pattern.last_text().allowed(rows, columns).to(cells.device)
    if n_texts > 1:
        before = replace(rule, is_causal=False, key_valid=None, removed=None)
        allowed = before.allowed(n_queries, n_keys, device=cells.device).to(cells.device)
        n_heads = max(allowed.shape[1], last.shape[1])
        others = allowed.expand(n_texts, n_heads, -1, -1)[:-1]
        last = torch.cat([others, last.expand(1, n_heads, -1, -1)])  # [B, H or 1, Q, T]
    return replace(rule, window=None, pattern=Dense(cells=last))


_BLOCK_ROWS = 256


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Call:
    """One call of `attend`: q [B, H, Q, D], k and v [B, K, T, D], and the rules."""

    q: Tensor
    k: Tensor
    v: Tensor
    rule: MaskRule
    score: ScoreRule

    def without_sinks(self) -> "Call":
        """The same call as if no head had a sink."""
        return replace(self, score=replace(self.score, sinks=None))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CopiedPattern:
    """The pattern of one head of another run: q [Q, D], k [T, D], and its rules, as head `head`."""

    q: Tensor
    k: Tensor
    rule: MaskRule
    score: ScoreRule
    head: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Edits:
    """Changes at one site.

    `copied` and `uniform` replace a head's pattern, `removed` are (head, query, key) whose weight goes to
    the other keys of the row, `mean` replaces a head's output at every query by its mean over queries,
    `fixed` by a given one, [d_value]. `cells` [n_queries, n_keys] is a drawn mask for every head, in the
    place of the site's own.
    """

    removed: tuple[tuple[int, int, int], ...] = ()
    uniform: tuple[int, ...] = ()
    mean: tuple[int, ...] = ()
    copied: Mapping[int, CopiedPattern] = field(default_factory=dict)
    fixed: Mapping[int, Tensor] = field(default_factory=dict)
    cells: Tensor | None = None

    def replace_by_mean(self, out: Tensor) -> Tensor:
        """`out` [B, H, Q, D] with some outputs replaced by their mean over the queries, or by a given one."""
        if not self.mean and not self.fixed:
            return out
        out = out.clone()
        heads = list(self.mean)
        out[-1, heads] = out[-1, heads].mean(dim=1, keepdim=True)
        for head, value in self.fixed.items():
            out[-1, head] = value.to(out)
        return out


def apply_edits(call: Call, out: Tensor, lse: Tensor, edits: Edits) -> tuple[Call, Tensor, Tensor]:
    """The call, output and lse after the edits of patterns; everything else is unchanged.

    Raises UserError for a change that does not fit the site.
    """
    whole = sorted({*edits.copied, *edits.uniform})
    if not whole and not edits.removed and edits.cells is None:
        return call, out, lse
    check_cells(edits, call.q.shape[1], call.q.shape[2], call.k.shape[2])
    edited = _replace_patterns(call, edits) if whole else call
    if edits.cells is not None:
        mask = edits.cells.to(call.q.device)
        check_size(mask, call.q.shape[2], call.k.shape[2])
        edited = replace(edited, rule=with_drawn_mask(edited.rule, mask, len(call.q)))
        whole = list(range(call.q.shape[1]))
    if edits.removed:
        cells = torch.tensor(edits.removed, dtype=torch.int64, device=call.q.device)
        removed = RemovedCells(cells=cells, n_heads=call.q.shape[1])
        edited = replace(edited, rule=replace(edited.rule, removed=removed))
    out, lse = out.clone(), lse.clone()
    n_queries = call.q.shape[2]
    for head in whole:
        for start in range(0, n_queries, _BLOCK_ROWS):
            _recompute(edited, head, slice(start, min(start + _BLOCK_ROWS, n_queries)), out, lse)
    for head, query in sorted({(head, query) for head, query, _ in edits.removed if head not in whole}):
        _recompute(edited, head, slice(query, query + 1), out, lse)
    return edited, out, lse


def _recompute(call: Call, head: int, rows: slice, out: Tensor, lse: Tensor) -> None:
    """Output and lse of some rows of one head of the last text, written into `out` and `lse`."""
    heads = slice(head, head + 1)
    s = scores_of(call.q, call.k, rule=call.rule, score=call.score, heads=heads, rows=rows)[-1:]
    sinks = None if call.score.sinks is None else call.score.sinks[heads]
    total = add_sinks(s.logsumexp(dim=-1), sinks)  # [1, 1, rows]
    weights = (s - total[..., None]).exp().nan_to_num(nan=0.0)
    v = call.v[-1:, head // (call.q.shape[1] // call.v.shape[1])]
    out[-1, head, rows] = (weights[0, 0] @ v[0].to(weights)).to(out)
    lse[-1, head, rows] = total[0, 0].to(lse)


def check_cells(edits: Edits, n_heads: int, n_queries: int, n_keys: int) -> None:
    """Raise UserError for an edge to remove that does not exist."""
    for head, query, key in edits.removed:
        if not (0 <= head < n_heads and 0 <= query < n_queries and 0 <= key < n_keys):
            raise UserError(
                f"There is no edge from query {query} to key {key} of head {head} here.",
                expected=f"a head below {n_heads}, a query below {n_queries}, a key below {n_keys}",
                action="Choose an edge of this map.",
            )


def _replace_patterns(call: Call, edits: Edits) -> Call:
    """The call with queries, keys and scores of some heads replaced; every head gets keys of its own."""
    n_heads = call.q.shape[1]
    q = call.q.clone()
    k = call.k.repeat_interleave(n_heads // call.k.shape[1], dim=1)
    score, rule = _with_own_numbers(call.score, call), call.rule
    for head, pattern in edits.copied.items():
        _check_pattern(call, pattern)
        window, given = rule.pattern, pattern.rule.pattern
        if isinstance(window, CentredWindow) and isinstance(given, CentredWindow):
            rule = replace(rule, pattern=window.with_head(head, given, pattern.head))
        q[-1, head], k[-1, head] = pattern.q.to(q), pattern.k.to(k)
        _copy_head(score, head, pattern)
    for head in edits.uniform:
        q[-1, head] = 0.0
        if score.is_kernel:  # there equal weights are equal products above 0
            q[-1, head], k[-1, head] = 1.0, 1.0
        _clear_head(score, head)
    return replace(call, q=q, k=k, rule=rule, score=score)


def _with_own_numbers(score: ScoreRule, call: Call) -> ScoreRule:
    """A score rule whose bias, sinks and vector are writable, one row a head."""
    bias = score.bias
    if bias is not None:
        tensors = {name: tensor.clone() for name, tensor in bias.tensors().items()}
        if "cells" in tensors:
            tensors["cells"] = tensors["cells"].expand(call.q.shape[0], call.q.shape[1], -1, -1).clone()
        bias = _rebuild(bias, tensors)
    return replace(
        score,
        bias=bias,
        sinks=None if score.sinks is None else score.sinks.clone(),
        vector=None if score.vector is None else score.vector.detach().clone(),
    )


def _rebuild(bias: Bias, tensors: dict[str, Tensor]) -> Bias:
    kind = next(kind for kind in BIASES.values() if isinstance(bias, kind))
    return kind(**tensors)


def _clear_head(score: ScoreRule, head: int) -> None:
    for tensor in () if score.bias is None else score.bias.tensors().values():
        (tensor[-1, head] if tensor.ndim == 4 else tensor[head]).zero_()
    if score.vector is not None:
        score.vector[head] = 0.0
    if score.sinks is not None:
        score.sinks[head] = -torch.inf


def _copy_head(score: ScoreRule, head: int, pattern: CopiedPattern) -> None:
    if score.bias is not None and pattern.score.bias is not None:
        for name, tensor in score.bias.tensors().items():
            source = pattern.score.bias.tensors()[name]
            if tensor.ndim == 4:
                tensor[-1, head] = source[-1, pattern.head if source.shape[1] > 1 else 0]
            else:
                tensor[head] = source[pattern.head]
    if score.vector is not None and pattern.score.vector is not None:
        score.vector[head] = pattern.score.vector[pattern.head]
    if score.sinks is not None and pattern.score.sinks is not None:
        score.sinks[head] = pattern.score.sinks[pattern.head]


def _check_pattern(call: Call, pattern: CopiedPattern) -> None:
    expected = (*call.q.shape[2:], *call.k.shape[2:])
    found = (*pattern.q.shape, *pattern.k.shape)
    if expected != found:
        raise UserError(
            f"The pattern to copy is of {plural(found[0], 'query', 'queries')} on "
            f"{plural(found[2], 'key')}, {found[1]} wide.",
            expected=f"{expected[0]} queries on {expected[2]} keys, {expected[1]} wide, as this head has",
            action="Choose a text of as many tokens and a head of the same size.",
        )
    is_alike = (
        (pattern.rule.is_causal, pattern.rule.window) == (call.rule.is_causal, call.rule.window)
        and type(pattern.score.bias) is type(call.score.bias)
        and _kind(pattern.score) == _kind(call.score)
    )
    if not is_alike:
        raise UserError(
            "The pattern to copy was made under another rule (mask, bias, scale) than this head's.",
            expected="a head of the same kind of site",
            action="Choose a head of the same stack.",
        )


def _kind(score: ScoreRule) -> tuple[object, ...]:
    """Key shared by scores that differ at most in their parameters."""
    return score.scale, score.softcap, score.is_kernel, score.sinks is None, score.vector is None


class QuietProbe:
    """A probe that does nothing; a base for others."""

    def gate(self, site: SiteKey) -> Tensor | None:
        """No gate."""
        return None

    def edits(self, site: SiteKey) -> Edits | None:
        return None

    def wants(self, site: SiteKey) -> bool:
        return False

    def record(self, site: SiteKey, call: Call, *, lse: Tensor, out: Tensor, is_training: bool) -> None:
        """Nothing is recorded."""


class TensorGates(QuietProbe):
    """Gates as tensors, [n_heads] or [batch, n_heads], through which gradients pass; and edits of heads."""

    def __init__(self, gates: Mapping[SiteKey, Tensor], edits: Mapping[SiteKey, Edits] | None = None) -> None:
        self._gates = gates
        self._edits = edits or {}

    def gate(self, site: SiteKey) -> Tensor | None:
        return self._gates.get(site)

    def edits(self, site: SiteKey) -> Edits | None:
        """Changes at the site, or None."""
        return self._edits.get(site)


_NAME = re.compile(r"L(\d{1,4})H(\d{1,4})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Guide:
    """The guided head, and the weight of its mean over links against the mean over tokens."""

    layer: int
    head: int
    share: float

    @classmethod
    def named(cls, name: str, share: float) -> "Guide | None":
        """The guide of a head named like L1H0; None for an invalid name."""
        found = _NAME.fullmatch(name)
        return None if found is None else cls(layer=int(found[1]), head=int(found[2]), share=share)


class GuidedProbe(QuietProbe):
    """Records the guided head's loss in one pass, with gradients."""

    def __init__(self, guide: Guide, links: Tensor) -> None:
        self._guide, self._links = guide, links
        self._missed = torch.zeros((), device=links.device)

    def wants(self, site: SiteKey) -> bool:
        """The cross-attention of the guided layer."""
        return site == ("cross", self._guide.layer) and len(self._links) > 0

    def record(self, site: SiteKey, call: Call, *, lse: Tensor, out: Tensor, is_training: bool) -> None:
        """Keep the sum of −log weight at the links."""
        head = slice(self._guide.head, self._guide.head + 1)
        s = scores_of(call.q, call.k, rule=call.rule, score=call.score, heads=head)
        told = s[:, 0].log_softmax(dim=-1)
        text, row, token = self._links.unbind(dim=1)
        self._missed = -told[text, row, token].sum()

    def loss(self) -> Tensor:
        """Loss added by the links of a pass, in nats."""
        return self._guide.share * self._missed
