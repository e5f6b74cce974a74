"""Which calls wrote one text piece by piece with kept keys and values: chains of calls of one module.

A decoder reads its prompt in one call (9 × 9) and each further token in a call of its own (1 × 10, 1 × 11,
…). Cross attention meanwhile looks at the same keys with the new queries. A cache that slides keeps the last
keys only (1 × 4, 1 × 4, …); a static one has room for keys to come, which no query sees (9 × 30, 1 × 30, …).

Calls are a chain only where it is certain: in one module, with the same heads and scale, each call's older
keys are the last ones of the call before, number by number, and it brings as many new keys as queries. The
keys of a softmax are not known; there the counts must fit, from a whole causal first call on.

| symbol | meaning                                            | shape                        |
|--------|----------------------------------------------------|------------------------------|
| k      | keys of a call; `start` is the first one's place   | [n_kv_heads, n_keys, d_head] |
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnscope.models.recording.placing import RecordedCall
from attnscope.models.recording.unwritten import seen_end
from attnscope.trace.record import SiteRecord
from attnscope.trace.weights import site_weights


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    """One call of a chain, and the places `start` to `end` − 1 that its keys have in the text."""

    call: RecordedCall
    start: int
    end: int

    @property
    def n_keys(self) -> int:
        """Keys that are of the text; those after them no query sees."""
        return self.end - self.start


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chain:
    """Calls of one module, each of which goes on where the one before ended."""

    steps: tuple[Step, ...]

    @property
    def is_growing(self) -> bool:
        """Whether its keys become more: self-attention with kept keys."""
        return len(self.steps) > 1 and self.steps[-1].end > self.steps[0].end

    @property
    def first(self) -> RecordedCall:
        """The call that it begins with."""
        return self.steps[0].call

    @property
    def n_queries(self) -> int:
        """Queries of all its calls."""
        return sum(step.call.record.n_queries for step in self.steps)

    def with_next(self, call: RecordedCall) -> "Chain | None":
        """The chain with one more call; None where the call does not go on where the last one ended."""
        if not self._may_take(call):
            return None
        if not self.is_growing and _is_same_text(self.steps[-1].call, call):
            steps = (*self.steps, Step(call=call, start=0, end=0))  # every key is of the text
            return Chain(steps=tuple(replace(step, end=call.record.n_keys) for step in steps))
        step = self._grown(call) if self.is_growing or len(self.steps) == 1 else None
        return None if step is None else Chain(steps=(*self.steps, step))

    def goes_with(self, other: "Chain") -> bool:
        """Whether both made the same steps in turns."""
        steps, others = ([step.call.record.n_queries for step in chain.steps] for chain in (self, other))
        if steps != others:
            return False
        turns = [(a.call.number, b.call.number) for a, b in zip(self.steps, other.steps, strict=True)]
        in_order = [number for turn in turns for number in turn]
        in_other = [number for turn in turns for number in turn[::-1]]
        return in_order == sorted(in_order) or in_other == sorted(in_other)

    def is_still(self) -> bool:
        """Whether the same queries looked at the same keys again: no new tokens."""
        if self.is_growing or is_given(self.first):
            return False
        return all(torch.equal(step.call.record.q, self.first.record.q) for step in self.steps)

    def _may_take(self, call: RecordedCall) -> bool:
        if is_given(call) and call.n_rows > 1:
            return False  # rows of beams change places, and no keys tell which
        is_alike = call.function == self.first.function and _is_alike(self.first.record, call.record)
        return is_alike and not call.extra

    def _grown(self, call: RecordedCall) -> Step | None:
        """The call as the next one of a text that grows."""
        first, last, record = self.steps[0], self.steps[-1], call.record
        n_former = seen_end(record) - record.n_queries  # keys that are not its own
        is_whole = self.first.record.n_queries == first.n_keys  # else earlier queries are missing
        if not is_whole or not 0 < n_former <= last.n_keys:
            return None
        is_next = self._counts_fit(record, n_former) if is_given(call) else _goes_on(record, last, n_former)
        start = last.end - n_former
        return Step(call=call, start=start, end=last.end + record.n_queries) if is_next else None

    def _counts_fit(self, record: SiteRecord, n_former: int) -> bool:
        """Whether the counts of a softmax fit: every former key, or as many as the last query looked at.

        The first call must be causal, and show such a window where it is alone, for a text of as many keys
        may be another one.
        """
        first, last = self.steps[0], self.steps[-1]
        if bool((site_weights(first.call.record)[:, :, : first.n_keys].triu(diagonal=1) > 0).any()):
            return False
        if n_former == last.end:
            return True
        if record.n_queries != 1:
            return False
        is_full = record.n_keys == n_former + 1
        n_looked_at = int((site_weights(last.call.record, rows=slice(-1, None)) > 0).any(dim=0).sum())
        is_window = n_looked_at == n_former + 1 and (self.is_growing or n_looked_at < last.n_keys)
        return is_full and is_window


def chains_of(calls: Sequence[RecordedCall]) -> list[Chain] | None:
    """The chains in the order of their first calls; None where a call could go on with several."""
    chains: list[Chain] = []
    of_module: defaultdict[str, list[int]] = defaultdict(list)
    for call in calls:
        places = of_module[call.module] if call.module else []
        longer = {place: chain for place in places if (chain := chains[place].with_next(call)) is not None}
        if len(longer) > 1:
            return None
        for place, chain in longer.items():
            chains[place] = chain
        if not longer:
            of_module[call.module].append(len(chains))
            chains.append(Chain(steps=(Step(call=call, start=0, end=_own_end(call)),)))
    return chains


def goes_on(record: SiteRecord, former: SiteRecord) -> bool:
    """Whether a call's older keys are the last ones of a former call, or both looked at the same keys."""
    if record.proof.is_given or not _is_alike(former, record):
        return False
    if record.n_keys == former.n_keys and _are_same(record.k, former.k):
        return True
    n_former, end = seen_end(record) - record.n_queries, seen_end(former)
    if not 0 < n_former <= end:
        return False
    return _are_same(record.k[:, :n_former], former.k[:, end - n_former : end])


def is_given(call: RecordedCall) -> bool:
    """Whether a call's weights are known and its keys are not."""
    return call.record.proof.is_given


def _own_end(call: RecordedCall) -> int:
    """How many keys of a first call are of the text: of more keys than queries, as many as are seen."""
    record = call.record
    if record.n_queries >= record.n_keys:
        return record.n_keys
    end = seen_end(record)
    return end if end == record.n_queries else record.n_keys


def _is_alike(one: SiteRecord, other: SiteRecord) -> bool:
    shapes = [(r.q.shape[0], r.k.shape[0], r.k.shape[2], r.k.dtype, r.k.device) for r in (one, other)]
    return shapes[0] == shapes[1] and one.score.scale == other.score.scale


def _is_same_text(one: RecordedCall, other: RecordedCall) -> bool:
    """Whether two calls looked at the same keys, as far as it can be told."""
    if one.record.n_keys != other.record.n_keys:
        return False
    if is_given(one):
        return seen_end(one.record) == seen_end(other.record)
    return _are_same(other.record.k, one.record.k)


def _goes_on(record: SiteRecord, last: Step, n_former: int) -> bool:
    """Whether the first keys of a call are the last ones of the call before."""
    former = last.call.record.k[:, last.n_keys - n_former : last.n_keys]
    return _are_same(record.k[:, :n_former], former)


def _are_same(own: Tensor, former: Tensor) -> bool:
    """Whether keys are the former ones, bit for bit or up to the rounding of another product."""
    if not bool(former.any()):
        return False  # keys of nothing tell nothing
    if own.data_ptr() == former.data_ptr() and own.stride() == former.stride():
        return True
    if torch.equal(own, former):
        return True
    n_roundings = 4.0 if former.dtype.itemsize < 4 else 16.0
    bound = n_roundings * torch.finfo(former.dtype).eps * float(former.abs().max())
    return float((own - former).abs().max()) <= bound
