"""One attention call, made query by query: for a decoder whose next state needs what it has just read.

    symbol   meaning                                      shape
    part     what one of these calls was made of          one query, [batch, n_heads, 1, d_head]
    whole    the call that would have had all queries     [batch, n_heads, n_queries, d_head]

A probe is told once, of the whole: queries, normalisers and outputs are those of the single calls, so that
its proof is of what the model used, and nothing is computed twice.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnscope.nn.attention import Probe
from attnscope.nn.centred import CentredBias, CentredWindow, join_rows
from attnscope.nn.drawn_masks import check_size
from attnscope.nn.edits import Call, CopiedPattern, Edits, check_cells
from attnscope.nn.masks import MaskRule, RemovedCells
from attnscope.nn.patterns import Dense, Pattern
from attnscope.nn.scores import Bias, ScoreRule
from attnscope.records.sites import SiteKey


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Part:
    """What one call gave to be recorded."""

    call: Call
    lse: Tensor
    out: Tensor
    is_training: bool


class StepProbe:
    """Stands between a probe and the calls of single queries.

    `sizes` are the whole's heads, queries and keys, `edits` its changes (None: the probe's own). Set `query`
    before each call, and `finish` at the end. With `is_listening` outputs are kept whatever the probe wants.
    """

    def __init__(
        self,
        probe: Probe,
        site: SiteKey,
        sizes: tuple[int, int, int],
        *,
        edits: Edits | None = None,
        is_listening: bool = False,
    ) -> None:
        self.query = 0
        self._probe, self._site = probe, site
        self._edits = probe.edits(site) if edits is None else edits
        if self._edits is not None:
            check_cells(self._edits, *sizes)
            if self._edits.cells is not None:
                check_size(self._edits.cells, *sizes[1:])
        self._wants = is_listening or probe.wants(site)
        self._parts: list[_Part] = []

    def gate(self, site: SiteKey) -> Tensor | None:
        """Gates are the same for every query."""
        return self._probe.gate(site)

    def edits(self, site: SiteKey) -> Edits | None:
        """What of the whole's changes falls on this query."""
        return None if self._edits is None else _of_row(self._edits, self.query)

    def wants(self, site: SiteKey) -> bool:
        """Whether the whole is to be recorded."""
        return self._wants

    def record(self, site: SiteKey, call: Call, *, lse: Tensor, out: Tensor, is_training: bool) -> None:
        """Keep one part."""
        self._parts.append(_Part(call=call, lse=lse, out=out, is_training=is_training))

    def mean_outputs(self, heads: tuple[int, ...]) -> dict[int, Tensor]:
        """The mean over all queries of what some heads gave for the last text, each [d_value]."""
        out = join_rows([part.out for part in self._parts])[-1]
        return {head: out[head].mean(dim=0) for head in heads}

    def finish(self) -> None:
        """Tell the probe of the whole call."""
        if not (self._parts and self._probe.wants(self._site)):
            return
        self._probe.record(
            self._site,
            _whole_call([part.call for part in self._parts], self._edits),
            lse=join_rows([part.lse for part in self._parts]),
            out=join_rows([part.out for part in self._parts]),
            is_training=self._parts[0].is_training,
        )


def _of_row(edits: Edits, row: int) -> Edits:
    """The part of some edits that falls on one query, which is query 0 of its call."""
    return replace(
        edits,
        removed=tuple((head, 0, key) for head, query, key in edits.removed if query == row),
        mean=(),
        copied={head: _row_of_pattern(pattern, row) for head, pattern in edits.copied.items()},
        cells=None if edits.cells is None else edits.cells[row : row + 1],
    )


def _row_of_pattern(pattern: CopiedPattern, row: int) -> CopiedPattern:
    window, bias = pattern.rule.pattern, pattern.score.bias
    if isinstance(window, CentredWindow):
        window = replace(window, centres=window.centres[:, :, row : row + 1])
    if isinstance(bias, CentredBias):
        bias = CentredBias(values=bias.values[:, :, row : row + 1])
    return replace(
        pattern,
        q=pattern.q[row : row + 1],
        rule=replace(pattern.rule, pattern=window, removed=None),
        score=replace(pattern.score, bias=bias),
    )


def _whole_call(calls: list[Call], edits: Edits | None) -> Call:
    """The call that has the queries of all of these; keys and values are the same in each."""
    first = calls[0]
    return replace(
        first, q=join_rows([call.q for call in calls]), rule=_whole_rule(calls, edits), score=_score(calls)
    )


def _whole_rule(calls: list[Call], edits: Edits | None) -> MaskRule:
    first = calls[0]
    patterns = [call.rule.pattern for call in calls]
    pattern: Pattern | None = patterns[0]
    if isinstance(pattern, CentredWindow):
        centres = [window.centres for window in patterns if isinstance(window, CentredWindow)]
        pattern = replace(pattern, centres=join_rows(centres))
    elif isinstance(pattern, Dense):  # a drawn mask
        pattern = Dense(cells=join_rows([mask.cells for mask in patterns if isinstance(mask, Dense)]))
    removed = None
    if edits is not None and edits.removed:
        cells = torch.tensor(edits.removed, dtype=torch.int64, device=first.q.device)
        removed = RemovedCells(cells=cells, n_heads=first.q.shape[1])
    return replace(first.rule, pattern=pattern, removed=removed)


def _score(calls: list[Call]) -> ScoreRule:
    biases = [call.score.bias for call in calls]
    bias: Bias | None = biases[0]
    if isinstance(bias, CentredBias):
        bias = CentredBias(values=join_rows([b.values for b in biases if isinstance(b, CentredBias)]))
    return replace(calls[0].score, bias=bias)
