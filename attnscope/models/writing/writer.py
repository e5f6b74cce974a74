"""Generates with a model: reads a prompt once, then one token at a time of each text it follows.

| symbol | meaning                                         | shape                      |
|--------|-------------------------------------------------|----------------------------|
| logits | one number per piece for each text's next token | [n_texts, vocab_size]      |

Writing the likeliest tokens of many texts at once, to count how many of them are right.

| symbol  | meaning                                                   | shape                    |
|---------|-----------------------------------------------------------|--------------------------|
| sources | token ids of texts of one length, without padding         | [n_texts, n_source]      |
| written | what is written, greedily, whether or not it has ended    | [n_texts, n_tokens]      |
| right   | what was to be written; the last is the end token         | [n_texts, n_tokens]      |

Nothing is searched and nothing stops a text: `translating.py` is for people, this is for measuring.

Beam search: the most probable texts, followed side by side.

| symbol | meaning                                                | shape                 |
|--------|--------------------------------------------------------|-----------------------|
| log_p  | log-probability of each next token of each live text   | [n_live, vocab_size]  |
| total  | sum of the log-probabilities of a text                 | number                |

score = total / lp(n), lp(n) = ((5 + n) / 6)^α with n tokens, the end token counted (Wu et al. 2016,
equation 14). Texts of one step are equally long, so their order by score is that by total. Knows neither
models nor words: ids only.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from attnscope.models.inputs import Inputs
from attnscope.models.network import Network, best_ids
from attnscope.models.passes import evaluating_tokens
from attnscope.nn import KeyValueCache, Probe, stop_if_unwanted
from attnscope.nn.own_module import OwnModule
from attnscope.records.outputs import BeamNode, BeamTree, NodeState
from attnscope.records.tokens import Token, Tokens


class Writer(Protocol):
    """Reads tokens and gives the next ones' logits; it chooses nothing and knows no text.

    A writer is made for one model, on its device, with at most one probe, and is used for one prompt:
    `begin` once, then `step` any number of times. Each call by itself runs in evaluation mode without
    gradients and leaves both as they were, since others compute in between. With `n_texts` texts under
    way the batch of every call has `n_texts` rows, in the order of the last `step`; there is never any
    padding, because all texts are equally long.

    Only new rows are computed: in `begin` the queries of the prefix (and the whole encoder), in `step`
    one query for each text. Each of the model's attention calls goes through `attend` with the probe and

    - `q` of the new tokens alone, `k` and `v` of all tokens so far *ending with the new ones* (a model
      with a sliding window may give fewer, never in another order);
    - in self-attention a rule that is causal, or that needs not be because there is one query;
    - in cross-attention the keys of the source, the same in every call, computed in `begin` only.

    So a recording probe can put the rows of all calls one below the other and has the trace of the whole
    text. A writer that cannot keep to this says so with `is_incremental` False: nothing is then recorded
    from its calls, and the caller traces the finished text in one more pass.

    For a model of the library with its cache: keep the cache object; in `step` select `parents` in it
    (`reorder_cache`, or `index_select` on every layer's keys and values), pass `ids[:, None]` with the
    cache and `use_cache=True`, and the positions that follow from the cache's length.
    """

    @property
    def is_incremental(self) -> bool:
        """Whether the probe sees every new row exactly once."""

    @property
    def max_tokens(self) -> int:
        """Maximum number of tokens in the generated text, including the prefix."""

    def begin(self, source: Sequence[int], prefix: Sequence[int]) -> Tensor:
        """Read the source (empty except for an encoder–decoder) and the prefix (one token at least).

        Returns the logits after the last token of the prefix: float32 [1, vocab_size].
        """

    def step(self, ids: Sequence[int], parents: Sequence[int]) -> Tensor:
        """Make text i the text `parents[i]` of the previous step followed by `ids[i]`.

        A parent may have several children or none. Returns float32 [len(ids), vocab_size].
        """


class OwnWriter:
    """Generates with the program's own module and a cache: of keys and values, or of recurrent states."""

    is_incremental = True

    def __init__(self, module: OwnModule, probe: Probe | None = None) -> None:
        self._module, self._probe = module, probe
        self._cache = KeyValueCache()
        self._memory: Tensor | None = None

    @property
    def max_tokens(self) -> int:
        """Number of positions of the model."""
        return self._module.config.max_tokens

    def begin(self, source: Sequence[int], prefix: Sequence[int]) -> Tensor:
        if self._module.config.form == "encoder-decoder":
            with evaluating_tokens(self._module, len(source)):
                self._memory = self._module.encode(self._tensor([source]), probe=self._probe)
        return self._read([prefix])

    def step(self, ids: Sequence[int], parents: Sequence[int]) -> Tensor:
        if list(parents) != [0] or self._cache.n_sequences != 1:
            self._cache.select(torch.tensor(list(parents), dtype=torch.int64, device=self._module.device))
        return self._read([[id] for id in ids])

    def _read(self, ids: Sequence[Sequence[int]]) -> Tensor:
        with evaluating_tokens(self._module, sum(map(len, ids))):
            hidden = self._module.decode(
                self._tensor(ids), memory=self._memory, cache=self._cache, probe=self._probe
            )
            return self._module.logits(hidden[:, -1]).float()

    def _tensor(self, ids: Sequence[Sequence[int]]) -> Tensor:
        return torch.tensor([list(row) for row in ids], dtype=torch.int64, device=self._module.device)


class RecomputingWriter:
    """Generates with any network by reading every text from its start again: slow, but exact."""

    is_incremental = False

    def __init__(self, network: Network, probe: Probe | None = None) -> None:
        self._network, self._probe = network, probe
        self._source: Tokens | None = None
        self._texts: list[list[int]] = []

    @property
    def max_tokens(self) -> int:
        """Maximum length that the network reads."""
        return self._network.max_tokens

    def begin(self, source: Sequence[int], prefix: Sequence[int]) -> Tensor:
        self._source = self._tokens(source) if self._network.form == "encoder-decoder" else None
        self._texts = [list(prefix)]
        return self._read()

    def step(self, ids: Sequence[int], parents: Sequence[int]) -> Tensor:
        self._texts = [[*self._texts[parent], id] for id, parent in zip(ids, parents, strict=True)]
        return self._read()

    def _read(self) -> Tensor:
        return torch.cat([self._last_logits(text) for text in self._texts])

    def _last_logits(self, ids: Sequence[int]) -> Tensor:
        text = self._tokens(ids)
        inputs = Inputs(source=text) if self._source is None else Inputs(source=self._source, target=text)
        return self._network.run(inputs, self._probe).logits([len(ids) - 1])

    def _tokens(self, ids: Sequence[int]) -> Tokens:
        return Tokens(text="", tokens=tuple(self._network.vocabulary.token(id) for id in ids))


@runtime_checkable
class CachingNetwork(Protocol):
    """A network that can continue reading where it stopped."""

    def writer(self, probe: Probe | None = None) -> Writer:
        """A writer for one prompt; it sends all attention through `probe`."""


def writer_of(network: Network, probe: Probe | None = None) -> Writer:
    """The network's own writer, or one that reads each text from its start again."""
    return network.writer(probe) if isinstance(network, CachingNetwork) else RecomputingWriter(network, probe)


@dataclass(frozen=True, slots=True, kw_only=True)
class RightTexts:
    """Of `n_texts`, the number right to the very end, and the share of right tokens.

    The end token counts as one of them; a token is right where it stands at its place.
    """

    n_texts: int
    n_exact: int
    token_share: float


def write_rows(module: OwnModule, sources: Tensor, begin_id: int, n_tokens: int) -> Tensor:
    """Append the likeliest next token, `n_tokens` times; the module's texts must have room."""
    with evaluating_tokens(module, sources.numel()):
        memory, cache = module.encode(sources), KeyValueCache()
        written = [sources.new_full((len(sources), 1), begin_id)]
        for _ in range(n_tokens):
            stop_if_unwanted()
            hidden = module.decode(written[-1], memory=memory, cache=cache)
            written.append(best_ids(module.logits(hidden)))
    return torch.cat(written[1:], dim=1)


def count_right(written: Tensor, right: Tensor) -> RightTexts:
    """Number of right tokens in a generated text; both are [n_texts, n_tokens]."""
    is_right = written == right
    return RightTexts(
        n_texts=len(right),
        n_exact=int(is_right.all(dim=1).sum()),
        token_share=is_right.cpu().double().mean().item(),
    )


def length_penalty(n_tokens: int, alpha: float) -> float:
    """Wu et al. 2016, equation 14."""
    return float(((5 + n_tokens) / 6) ** alpha)


@dataclass(frozen=True, slots=True)
class _Node:
    parent: int | None
    depth: int
    id: int
    log_probability: float
    total: float
    score: float
    state: NodeState
    row: int
    """Which live text of its step it goes on from; the place of its parent among them."""


class BeamSearch:
    """The search without the model: feed `log_p` of the live texts to `advance` until `is_done`.

    Exact for what it keeps: it ends early only when no live text can beat the best finished one, since a
    total never rises and lp never falls. A text that is cut at `max_tokens` competes with finished ones.
    """

    def __init__(self, *, n_beams: int, alpha: float, max_tokens: int, end_id: int | None) -> None:
        self._n_beams, self._alpha = n_beams, alpha
        self._max_tokens, self._end_id = max_tokens, end_id
        self._nodes: list[_Node] = []
        self._live: list[int] = []
        self._whole: list[int] = []
        self.depth = 0

    @property
    def is_done(self) -> bool:
        """Whether the best text is certain, or every text has its maximum length."""
        if self.depth == 0:
            return self._max_tokens <= 0
        if not self._live or self.depth >= self._max_tokens:
            return True
        best = self._nodes[self.best]
        # Totals are ≤ 0, so the largest divisor gives the best score that can still come.
        hope = self._nodes[self._live[0]].total / length_penalty(self._max_tokens, self._alpha)
        return best.state == "finished" and best.score >= hope

    @property
    def live_ids(self) -> list[int]:
        """The last token of each live text, best first."""
        return [self._nodes[node].id for node in self._live]

    @property
    def live_rows(self) -> list[int]:
        """Index of the previous step's live text that each live text continues."""
        return [self._nodes[node].row for node in self._live]

    def advance(self, log_p: Tensor) -> None:
        """Take one more token: `log_p` float64 [number of live texts, vocab_size] on the CPU.

        Twice as many candidates as beams are looked at: every beam may end, and as many go on.
        """
        before: list[int | None] = [*self._live] or [None]
        totals = [0.0 if node is None else self._nodes[node].total for node in before]
        sums = log_p + log_p.new_tensor(totals)[:, None]  # [n_live, vocab_size]
        n_ids = sums.shape[1]
        values, places = sums.flatten().topk(min(2 * self._n_beams, sums.numel()))
        self.depth += 1
        self._live, penalty = [], length_penalty(self.depth, self._alpha)
        for rank, (total, place) in enumerate(zip(values.tolist(), places.tolist(), strict=True)):
            if total == float("-inf"):
                break
            row, id = divmod(place, n_ids)
            self._add(
                _Node(
                    parent=before[row],
                    depth=self.depth,
                    id=id,
                    log_probability=float(log_p[row, id]),
                    total=total,
                    score=total / penalty,
                    state=self._state(id, rank),
                    row=row,
                )
            )

    def _state(self, id: int, rank: int) -> NodeState:
        if id == self._end_id:
            return "finished" if rank < self._n_beams else "dropped"
        return "kept" if len(self._live) < self._n_beams else "dropped"

    def _add(self, node: _Node) -> None:
        self._nodes.append(node)
        index = len(self._nodes) - 1
        if node.state == "kept":
            self._live.append(index)
        if node.state == "finished" or (node.state == "kept" and self.depth >= self._max_tokens):
            self._whole.append(index)

    @property
    def best(self) -> int:
        """The node that ends the best text; while none is finished, of the best live one."""
        first = self._live[0] if self._live else len(self._nodes) - 1
        return max(self._whole, key=lambda node: self._nodes[node].score, default=first)

    def path(self, node: int) -> list[int]:
        """The nodes from a first token to `node`."""
        found: list[int] = []
        at: int | None = node
        while at is not None:
            found.append(at)
            at = self._nodes[at].parent
        return found[::-1]

    def ids(self, node: int) -> list[int]:
        """The tokens from the first to `node`."""
        return [self._nodes[at].id for at in self.path(node)]

    def rows(self, node: int) -> list[int]:
        """For each token of the path, the row of `log_p` it came from in its step."""
        return [self._nodes[at].row for at in self.path(node)]

    def log_probabilities(self, node: int) -> list[float]:
        """Of each token of the path, in nats."""
        return [self._nodes[at].log_probability for at in self.path(node)]

    def total(self, node: int) -> float:
        """The log-probability of the text up to `node`, in nats."""
        return self._nodes[node].total

    def tree(self, token: Callable[[int], Token]) -> BeamTree:
        """Everything considered, as a record."""
        nodes = tuple(
            BeamNode(
                parent=node.parent,
                depth=node.depth,
                token=token(node.id),
                log_probability=node.log_probability,
                total=node.total,
                score=node.score,
                state=node.state,
            )
            for node in self._nodes
        )
        return BeamTree(nodes=nodes, best=self.best, n_beams=self._n_beams, length_penalty=self._alpha)
