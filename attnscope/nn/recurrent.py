"""A recurrent encoder–decoder with or without attention, Bahdanau et al. 2014 and Luong et al. 2015.

    symbol    meaning                                                      shape
    x         token embeddings                                             [batch, n_tokens, d_model]
    memory    the encoder's states h_j, both directions side by side       [batch, n_source, d_model]
    s         the decoder's top state after a token                        [batch, d_model]
    c         the context Σ_j a_j h_j, of all heads, projected             [batch, d_model]
    states    h, and of an LSTM c, of every decoder layer                  each [n_layers, batch, d_model]

    context fed (Bahdanau, section 3.1)      c_t from s_(t−1),  s_t = cell([x_t; c_t], s_(t−1)),
                                             hidden_t = tanh(W_c c_t + W_s s_t + W_x x_t)   (equation 4)
    context not fed (Luong, section 3)       s_t = cell(x_t, s_(t−1)),  c_t from s_t,
                                             hidden_t = tanh(W_c c_t + W_s s_t)             (equation 5)

    no attention, fed (Cho et al. 2014)      c = tanh(V e) for all t, else as Bahdanau (appendix A.1)
    no attention (Sutskever et al. 2014)     s_t = cell(x_t, s_(t−1)),  hidden_t = tanh(W_s s_t)

The encoder runs both ways, half of d_model each (Bahdanau, section 3.2; Luong's runs one way). Where papers
score states themselves, heads project them first, as everywhere in this program: one head with the score
`dot` is Luong's `general` with a matrix of two factors. The decoder's first states are tanh(W e), e being
the last state of each direction; Bahdanau takes the backward one alone (appendix A.2.2). His maxout layer
before the output is a tanh here, and Luong's input feeding is left out. The names of parameters are those
of saved models.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from attnscope.errors import UserError
from attnscope.nn.attention import Probe
from attnscope.nn.cache import KeyValueCache
from attnscope.nn.config import Body, ModelConfig
from attnscope.nn.dropping import drop
from attnscope.nn.edits import Call, CopiedPattern, Edits, check_cells, check_size
from attnscope.nn.embedding_and_head import Head, unfilled_embedding
from attnscope.nn.layers import CrossAttention, NoHeads, make_attention
from attnscope.nn.masks import (
    Centre,
    CentredBias,
    CentredWindow,
    Dense,
    MaskRule,
    Pattern,
    RemovedCells,
    build_rule,
    join_rows,
)
from attnscope.nn.own_module import OwnModule
from attnscope.nn.pooling import read_padded
from attnscope.nn.scores import Bias, ScoreRule
from attnscope.records.sites import SiteKey

# One attention call, made query by query: for a decoder whose next state needs what it has just read.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Part:
    """Result of one call, to be recorded."""

    call: Call
    lse: Tensor
    out: Tensor
    is_training: bool


class StepProbe:
    """Joins the calls of single queries for a probe.

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
        """Part of the whole's edits that concerns this query."""
        return None if self._edits is None else _of_row(self._edits, self.query)

    def wants(self, site: SiteKey) -> bool:
        return self._wants

    def record(self, site: SiteKey, call: Call, *, lse: Tensor, out: Tensor, is_training: bool) -> None:
        self._parts.append(_Part(call=call, lse=lse, out=out, is_training=is_training))

    def mean_outputs(self, heads: tuple[int, ...]) -> dict[int, Tensor]:
        """The mean output of some heads over all queries for the last text, each [d_value]."""
        out = join_rows([part.out for part in self._parts])[-1]
        return {head: out[head].mean(dim=0) for head in heads}

    def finish(self) -> None:
        """Report the whole call to the probe."""
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
    """The part of some edits that concerns one query, which is query 0 of its call."""
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
    """The joint call of these queries; keys and values are the same in each."""
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


SITE: SiteKey = ("cross", 0)
_STACKS: dict[Body, type[nn.RNN | nn.GRU | nn.LSTM]] = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
_CELLS: dict[Body, type[nn.RNNCell | nn.GRUCell | nn.LSTMCell]] = {
    "rnn": nn.RNNCell,
    "gru": nn.GRUCell,
    "lstm": nn.LSTMCell,
}
States = tuple[Tensor, ...]


class Recurrent(OwnModule):
    """An encoder–decoder with recurrent cells; its one site is ("cross", 0), if any.

    Start with `nn.building.build_own`, which fills the weights.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        config.check()
        self.config, self.n_positions = config, config.max_tokens
        d, layout = config.d_model, config.layout(*SITE)
        self.tokens = unfilled_embedding(config.vocab_size, d)
        self.encoder = _stack(config, d // 2, config.encoder_layers, bidirectional=True)
        n_states = 2 if config.body == "lstm" else 1
        self.bridge = nn.Linear(d, n_states * config.decoder_layers * d, bias=config.bias)
        has_attention, is_fed = config.has_attention, config.feeds_context
        self.decoder: nn.ModuleList | nn.RNNBase = (
            _cells(config)
            if is_fed and has_attention
            else _stack(config, d, config.decoder_layers, n_in=2 * d if is_fed else d)
        )
        self.cross = make_attention(CrossAttention, config, SITE, layout) if has_attention else None
        self.vector = nn.Linear(d, d, bias=config.bias) if is_fed and not has_attention else None
        has_centre = config.local_reach > 0 and bool(layout.heads) and has_attention
        self.centre = (
            Centre(n_heads=layout.n_heads, d_head=config.head_width, d_model=d, reach=config.local_reach)
            if has_centre
            else None
        )
        self.readout = nn.Linear(2 * d if config.feeds_context else d, d, bias=False)
        self.head = Head(config)
        self._scale = math.sqrt(d) if config.scale_embeddings else 1.0

    @property
    def can_read_past(self) -> bool:
        """Always: a state has no last position."""
        return True

    def fill_tables(self) -> None:
        """There are none."""

    def reach_past(self, n_tokens: int) -> None:
        """Allow texts of `n_tokens`."""
        self.n_positions = max(self.n_positions, n_tokens)

    def encode(
        self,
        ids: Tensor,
        *,
        valid: Tensor | None = None,
        segments: Tensor | None = None,
        pattern: Pattern | None = None,
        probe: Probe | None = None,
    ) -> Tensor:
        """The encoder's states, 0 at padding, which must be at the end of a text.

        With `valid` on the CPU no other device is waited for, wherever the ids are.
        Raises UserError for a pattern: there is no self-attention that it could be the mask of.
        """
        if pattern is not None:
            raise UserError(
                "This model's encoder is recurrent and has no self-attention.",
                expected="no mask of one's own",
                action="Remove the mask, or open a Transformer.",
            )
        if segments is not None:
            raise ValueError("segments were given to a model without a segment embedding")
        x = self._embed(ids)
        lengths = _lengths(valid)
        if lengths is None:
            out: Tensor = self.encoder(x)[0]
            return out
        return read_padded(self.encoder, x, lengths)

    def decode(
        self,
        ids: Tensor,
        *,
        memory: Tensor | None = None,
        memory_valid: Tensor | None = None,
        valid: Tensor | None = None,
        pattern: Pattern | None = None,
        prefix: Tensor | None = None,
        probe: Probe | None = None,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        """The decoder's stream before the vocabulary; padding of the target changes nothing before it.

        With a cache, `ids` follow the tokens it has read, and only their rows are computed and returned.
        """
        if memory is None or prefix is not None or pattern is not None:
            raise ValueError("a recurrent decoder needs a memory, and takes no prefix and no pattern")
        x = self._embed(ids, 0 if cache is None else cache.n_tokens)
        lengths = _lengths(memory_valid)
        states = cache.states if cache is not None and cache.states else self._first_states(memory, lengths)
        if len(ids) > states[0].shape[1]:  # copies of one text under way
            states = tuple(state.expand(-1, len(ids), -1) for state in states)
        if self.cross is None:
            hidden, states = self._decode_without(x, states, self._ends(memory, lengths))
        else:
            reading = _Reading(self, self.cross, memory, lengths, memory_valid, len(ids), cache)
            if self.config.feeds_context:
                hidden, states = self._decode_fed(x, states, reading, probe)
            else:
                top, states = self._run_stack(x, states)
                hidden = reading.context(top, probe) + self.readout(top)
        if cache is not None:
            cache.states = states
            cache.note(*ids.shape)
        return self._dropped(hidden.tanh())

    def _decode_without(self, x: Tensor, states: States, ends: Tensor) -> tuple[Tensor, States]:
        """As `_decode_fed` without attention; `ends` [B, d_model] is all that remains of the source."""
        if self.vector is None:
            top, states = self._run_stack(x, states)
            return self.readout(top), states
        context = self.vector(ends).tanh()[:, None].expand(*x.shape[:2], -1)  # [B, T, d_model]
        top, states = self._run_stack(torch.cat((x, context), dim=-1), states)
        return context + self.readout(torch.cat((top, x), dim=-1)), states

    def _decode_fed(
        self, x: Tensor, states: States, reading: "_Reading", probe: Probe | None
    ) -> tuple[Tensor, States]:
        """Token by token, [B, T, d_model] before the tanh, and the states after the last."""
        if probe is None:
            return self._step_through(x, states, reading, None)
        edits = probe.edits(SITE)
        sizes = (self.config.layout(*SITE).n_heads, x.shape[1], reading.n_keys)
        if edits is not None and edits.mean:
            # A mean over all queries is not known while the first of them is read: it is that of the run in
            # which these heads are left alone.
            listening = StepProbe(probe, SITE, sizes, edits=edits, is_listening=True)
            self._step_through(x, states, reading, listening)
            fixed = {**edits.fixed, **listening.mean_outputs(edits.mean)}
            edits = replace(edits, mean=(), fixed=fixed)
        steps = StepProbe(probe, SITE, sizes, edits=edits)
        found = self._step_through(x, states, reading, steps)
        steps.finish()
        return found

    def _step_through(
        self, x: Tensor, states: States, reading: "_Reading", probe: StepProbe | None
    ) -> tuple[Tensor, States]:
        sums = []
        for token in range(x.shape[1]):
            if probe is not None:
                probe.query = token
            context = reading.context(states[0][-1][:, None], probe)[:, 0]  # [B, d_model]
            states = self._step(torch.cat((x[:, token], context), dim=-1), states)
            sums.append(context + self.readout(torch.cat((states[0][-1], x[:, token]), dim=-1)))
        return torch.stack(sums, dim=1), states

    def _step(self, x: Tensor, states: States) -> States:
        """The states of every layer after one more token."""
        after: list[States] = []
        cells = list(self.decoder.children())
        for layer, cell in enumerate(cells):
            before = tuple(state[layer] for state in states)
            found = cell(x, before if len(before) > 1 else before[0])
            after.append(found if isinstance(found, tuple) else (found,))
            x = after[-1][0]
            if layer + 1 < len(cells):
                x = self._dropped(x)
        return tuple(torch.stack(layers) for layers in zip(*after, strict=True))

    def _run_stack(self, x: Tensor, states: States) -> tuple[Tensor, States]:
        """The top states of all tokens, and the states after the last."""
        given = tuple(state.contiguous() for state in states)
        top, last = self.decoder(x, given if len(given) > 1 else given[0])
        return top, last if isinstance(last, tuple) else (last,)

    def _first_states(self, memory: Tensor, lengths: Tensor | None) -> States:
        """tanh(W e) for every layer and kind of state."""
        started = self.bridge(self._ends(memory, lengths)).tanh()
        started = started.unflatten(-1, (-1, self.config.decoder_layers, self.config.d_model))
        return tuple(state.transpose(0, 1) for state in started.unbind(dim=1))  # each [n_layers, B, d_model]

    def _ends(self, memory: Tensor, lengths: Tensor | None) -> Tensor:
        """e, the final states of each direction of the encoder, [B, d_model]."""
        half = self.config.d_model // 2
        if lengths is None:
            forward = memory[:, -1, :half]
        else:
            rows = torch.arange(len(memory), device=memory.device)
            forward = memory[rows, lengths.to(memory.device) - 1, :half]
        return torch.cat((forward, memory[:, 0, half:]), dim=-1)

    def _embed(self, ids: Tensor, first: int = 0) -> Tensor:
        n_most = self.n_positions - first
        if ids.ndim != 2 or not 1 <= ids.shape[1] <= n_most:
            raise ValueError(f"ids are {list(ids.shape)}, expected [batch, 1 to {n_most}]")
        x: Tensor = self.tokens(ids)
        return self._dropped(x if self._scale == 1.0 else x * self._scale)

    def _dropped(self, x: Tensor) -> Tensor:
        return drop(x, self.config.dropout) if self.config.dropout and self.training else x


class _Reading:
    """The memory as read by one pass of the decoder, query by query or all at once."""

    def __init__(
        self,
        module: Recurrent,
        cross: CrossAttention | NoHeads,
        memory: Tensor,
        lengths: Tensor | None,
        valid: Tensor | None,
        n_sequences: int,
        cache: KeyValueCache | None,
    ) -> None:
        self._cross, self._centre, self._memory = cross, module.centre, memory
        self.n_keys = memory.shape[1]
        whole = torch.full((1,), self.n_keys, device=memory.device)
        self._lengths = whole if lengths is None else lengths.to(memory.device)
        self._rule = build_rule(is_causal=False, key_valid=valid)
        self._read = cross.read_memory(memory, n_sequences, cache)

    def context(self, states: Tensor, probe: Probe | None) -> Tensor:
        """The contexts of some decoder states, [B, Q, d_model]."""
        rule, bias = self._local(states)
        found: Tensor = self._cross(states, self._memory, rule=rule, bias=bias, read=self._read, probe=probe)
        return found

    def _local(self, states: Tensor) -> tuple[MaskRule, Bias | None]:
        if self._centre is None:
            return self._rule, None
        window, bias = self._centre(states, self._lengths)
        return MaskRule(key_valid=self._rule.key_valid, pattern=window), bias


def _stack(
    config: ModelConfig, width: int, n_layers: int, *, n_in: int = 0, bidirectional: bool = False
) -> nn.RNNBase:
    return _STACKS[config.body](
        n_in or config.d_model,
        width,
        n_layers,
        bias=config.bias,
        batch_first=True,
        dropout=config.dropout if n_layers > 1 else 0.0,
        bidirectional=bidirectional,
    )


def _cells(config: ModelConfig) -> nn.ModuleList:
    d = config.d_model
    return nn.ModuleList(
        _CELLS[config.body](d if layer else 2 * d, d, bias=config.bias)
        for layer in range(config.decoder_layers)
    )


def _lengths(valid: Tensor | None) -> Tensor | None:
    """Tokens of each text, int64 [batch]; None if all fill the batch. Raises ValueError for gaps."""
    if valid is None:
        return None
    valid = valid.to(torch.bool)
    if valid.device.type == "cpu":
        if bool(valid.all()):
            return None
        if not bool(valid[:, 0].all()) or bool((valid[:, 1:] & ~valid[:, :-1]).any()):
            raise ValueError("padding must be at the end of a text that has a token")
    return valid.sum(dim=1)
