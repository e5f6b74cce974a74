"""Which site a recorded call is: its stack and layer, told from the numbers of its queries and keys.

Recorded calls are of one text, or of two. Queries on keys of the same text are self-attention, of the encoder
or, where causal or of the second text, of the decoder; of the second text on the first they are cross
attention. Layers count the calls of a stack.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from attnscope.counting import plural
from attnscope.errors import UserError
from attnscope.models.recording.folded import Fold
from attnscope.records.sites import Site, SiteKey, Stack
from attnscope.trace.record import SiteRecord

_CROSS = re.compile(r"cross|multihead_attn|encoder_attn|enc_?dec_?attn|src_attn|\battn2\b|memory", re.I)
_DECODER = re.compile(r"decoder|\bdec\b", re.I)
_NOT_JOINED = (
    " Calls that generated a text step by step are joined only if each has all keys of the previous one. "
    "Generate one text without beams or a sliding cache, or record one pass over the whole text."
)
_MAX_TOLD = 8
MAX_ROWS = 16
"""So many rows of a batch are recorded where none was chosen."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordedCall:
    """One attention call: the module it was made in, its `number` from 0, and its facts.

    `is_self` says that queries and keys were made of one text for sure; `extra` names keys that are no
    tokens; `dropout` is what the module dropped of its weights, which are shown without it. Of a softmax it
    is not known, and `is_training` says that there may be one. `module` is the path of the module, empty
    where there was none. `n_steps` above 1: so many calls of it, which wrote a text, joined to one. The call
    was made with `n_rows` batch rows; `rows` are the facts of each where none was chosen. `fold` says how
    heads and rows shared an axis.
    """

    number: int
    name: str
    function: str
    record: SiteRecord
    is_self: bool = False
    extra: tuple[str, ...] = ()
    dropout: float = 0.0
    is_training: bool = False
    module: str = ""
    n_steps: int = 1
    n_rows: int = 1
    rows: tuple[SiteRecord, ...] = ()
    fold: Fold | None = None

    @property
    def is_cross(self) -> bool:
        """Whether queries and keys are of two texts, as far as it can be told."""
        if self.n_steps > 1:
            return not self.is_self
        if self.record.n_queries != self.record.n_keys - len(self.extra) or self.extra:
            return True
        return not self.is_self and _CROSS.search(self.name) is not None

    @property
    def words(self) -> str:
        size = f"{self.record.n_queries} × {self.record.n_keys}"
        kind = ", causal" if self.record.rule.is_causal else ""
        n_heads = self.record.q.shape[0]
        heads = plural(n_heads, "head")
        rows = f", {len(self.rows)} batch rows" if self.rows else ""
        return f"{self.number}  {self.name}  {heads}, {size}{kind}{rows}"


def choose_row(calls: Sequence[RecordedCall], row: int | None) -> tuple[RecordedCall, ...]:
    """The calls with row `row` of each, and a share of rows where a call had fewer.

    Raises UserError where there is no such row, or one must be chosen.
    """
    n_rows = max((len(call.rows) for call in calls), default=0)
    if row is not None and not -max(1, n_rows) <= row < max(1, n_rows):
        raise UserError(
            f"The recorded calls have {plural(max(1, n_rows), 'batch row')}; there is no row {row}.",
            expected=f"0 to {max(1, n_rows) - 1}",
        )
    if row is None and n_rows:
        raise UserError(
            f"The calls were made with {n_rows} batch rows at once, but a map shows one.",
            expected=f"one of the rows 0 to {n_rows - 1}",
            action="Choose one: recording.trace(tokens, row=0), or attnscope.record(module, row=0) when "
            "recording.",
        )
    return tuple(
        replace(call, record=call.rows[(row or 0) % n_rows * len(call.rows) // n_rows], rows=())
        if call.rows
        else call
        for call in calls
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """How many tokens the texts have; `target` is None where there is but one text."""

    source: int
    target: int | None


def find_lengths(calls: Sequence[RecordedCall], *, has_target: bool = False) -> Lengths:
    """The lengths of the one or two texts; raises UserError for calls of more lengths than two.

    With `has_target` there are two texts, even where their lengths are one.
    """
    lengths = list(dict.fromkeys(n for c in calls for n in (c.record.n_keys, c.record.n_queries)))
    cross = next((call.record for call in calls if call.is_cross), None)
    source = lengths[0] if cross is None else cross.n_keys
    target = cross.n_queries if cross is not None else lengths[1] if len(lengths) > 1 else None
    if target is None and has_target:
        target = source
    if not set(lengths) <= {source, target}:
        told = "; ".join(call.words for call in calls[:_MAX_TOLD])
        raise UserError(
            f"The {len(calls)} recorded calls have texts of {len(lengths)} lengths "
            f"({', '.join(map(str, sorted(lengths)[:_MAX_TOLD]))} tokens); one trace shows at most two. "
            f"{told}{' …' if len(calls) > _MAX_TOLD else ''}.",
            expected="calls of one text, or of two that attend to each other",
            action="Choose some: recording.trace(tokens, calls=[0, 1, 2]) or calls='part of a module name'."
            + (_NOT_JOINED if len(calls) > len({call.module for call in calls}) else ""),
        )
    return Lengths(source=source, target=target)


def place_calls(calls: Sequence[RecordedCall], lengths: Lengths) -> tuple[Site, ...]:
    """The site of each call, in the order of the calls."""
    counts: Counter[Stack] = Counter()
    sites = []
    for call in calls:
        stack = _stack_of(call, lengths)
        record = call.record
        site = Site(stack=stack, layer=counts[stack], n_heads=record.q.shape[0], n_kv_heads=record.k.shape[0])
        counts[stack] += 1
        sites.append(site)
    return tuple(sites)


def named_sites(calls: Sequence[RecordedCall], sites: Sequence[Site]) -> tuple[tuple[SiteKey, str], ...]:
    return tuple((site.key, call.name) for call, site in zip(calls, sites, strict=True))


def _stack_of(call: RecordedCall, lengths: Lengths) -> Stack:
    record = call.record
    if call.is_cross:
        is_back = (record.n_queries, record.n_keys) == (lengths.source, lengths.target)
        return "back" if is_back and lengths.source != lengths.target else "cross"
    if call.n_steps > 1 and record.n_queries == (lengths.target or lengths.source):
        return "decoder"
    if lengths.target is None:
        return "decoder" if record.rule.is_causal else "encoder"
    if lengths.source != lengths.target:
        return "encoder" if record.n_queries == lengths.source else "decoder"
    is_second = record.rule.is_causal or _DECODER.search(call.name) is not None
    return "decoder" if is_second else "encoder"
