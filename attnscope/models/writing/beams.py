"""Beam search: the most probable texts, followed side by side.

| symbol | meaning                                                | shape                 |
|--------|--------------------------------------------------------|-----------------------|
| log_p  | log-probability of each next token of each live text   | [n_live, vocab_size]  |
| total  | sum of the log-probabilities of a text                 | number                |

score = total / lp(n), lp(n) = ((5 + n) / 6)^α with n tokens, the end token counted (Wu et al. 2016,
equation 14). Texts of one step are equally long, so their order by score is that by total. Knows neither
models nor words: ids only.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from attnscope.records.outputs import BeamNode, BeamTree, NodeState
from attnscope.records.tokens import Token


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
        """Whether the best text is certain, or every text is as long as it may be."""
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
        """Which live text of the step before each live text goes on from."""
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
        """The node that ends the best text; while none is finished, the best live one."""
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
        """The log-probability of the text that ends with `node`, in nats."""
        return self._nodes[node].total

    def tree(self, token: Callable[[int], Token]) -> BeamTree:
        """Everything that was considered, as a record."""
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
