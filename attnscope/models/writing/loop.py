"""Writing one token after another: greedily, by drawing, or with beams. Knows ids, not words.

The loops are generators that yield after each token, so that whoever iterates can stop.

| symbol | meaning                                          | shape        |
|--------|--------------------------------------------------|--------------|
| logits | one number per piece                             | [vocab_size] |
| p      | probabilities after temperature, top-k and top-p | [vocab_size] |

A token is drawn in the order of the literature: logits / temperature, then the k most probable (Fan et al.
2018), then of those the fewest that hold top-p of the probability (Holtzman et al. 2020, section 3.1). Of
equal tokens the one with the smaller id comes first, so that nothing depends on the machine.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.counting import plural
from attnscope.errors import UserError
from attnscope.models.outputs import log_probabilities
from attnscope.models.writing.beams import BeamSearch
from attnscope.models.writing.writer import Writer
from attnscope.records.generation import WriteSettings


def draw_probabilities(logits: Tensor, settings: WriteSettings) -> Tensor:
    """What each token is drawn with: float64 on the CPU, sums to 1; one-hot where nothing is left open."""
    wide = logits.detach().cpu().double()
    if settings.mode != "sample" or settings.temperature == 0.0:
        p = torch.zeros_like(wide)
        p[int(wide.argmax())] = 1.0
        return p
    p = (wide / settings.temperature).softmax(dim=-1)
    if settings.top_k:
        p = keep_top_k(p, settings.top_k)
    if settings.top_p < 1.0:
        p = keep_top_p(p, settings.top_p)
    return p


def keep_top_k(p: Tensor, k: int) -> Tensor:
    """The k most probable tokens, their probabilities made to sum to 1 again."""
    order = p.argsort(descending=True, stable=True)
    return _only(p, order[: max(k, 1)])


def keep_top_p(p: Tensor, share: float) -> Tensor:
    """The fewest most probable tokens that together hold at least `share`; one at least."""
    order = p.argsort(descending=True, stable=True)
    held = p[order].cumsum(dim=-1)
    n_kept = int((held < share).sum()) + 1
    return _only(p, order[:n_kept])


def draw(p: Tensor, generator: torch.Generator) -> int:
    """One id, drawn by inverting the distribution: one number from `generator` a token."""
    cumulative = p.cumsum(dim=-1)
    at = torch.rand((), generator=generator, dtype=torch.float64) * cumulative[-1]
    # right: the first id whose sum lies above; ids with probability 0 are never that.
    found = int(torch.searchsorted(cumulative, at, right=True))
    return min(found, int(p.nonzero()[-1]))


def _only(p: Tensor, kept: Tensor) -> Tensor:
    result = torch.zeros_like(p)
    result[kept] = p[kept]
    return result / result.sum()


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One token that was taken, and the most probable ones there; see `WrittenToken`.

    `best_chances` are those of the most probable ones; empty where nothing was drawn.
    """

    id: int
    log_probability: float
    chance: float
    best_ids: tuple[int, ...]
    best_log_probabilities: tuple[float, ...]
    best_chances: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What is written so far; `rows` is the batch row in each of the writer's calls.

    The end token that stopped the text is the last of `choices` and was never read (`has_ended`).
    """

    choices: tuple[Choice, ...]
    rows: tuple[int, ...]
    has_ended: bool = False
    search: BeamSearch | None = None

    @property
    def ids(self) -> list[int]:
        """What was written, without the end token."""
        ids = [choice.id for choice in self.choices]
        return ids[:-1] if self.has_ended else ids


def write_ids(
    writer: Writer,
    source: Sequence[int],
    prefix: Sequence[int],
    settings: WriteSettings,
    end_id: int | None,
) -> Generator[Draft, None, Draft]:
    """Write after `prefix`; yields a draft after each token and returns the last, every row computed.

    Raises UserError when the prefix leaves no room.
    """
    n_most = min(settings.max_tokens, writer.max_tokens - len(prefix))
    if n_most < 1:
        raise UserError(
            f"The text fills {plural(len(prefix), 'token')}, and the model can read no more.",
            expected=f"fewer than {writer.max_tokens}",
            action="Shorten the text, then generate again.",
        )
    if settings.mode == "beams":
        return (yield from _search(writer, source, prefix, settings, end_id, n_most))
    return (yield from _choose_each(writer, source, prefix, settings, end_id, n_most))


def _choose_each(
    writer: Writer,
    source: Sequence[int],
    prefix: Sequence[int],
    settings: WriteSettings,
    end_id: int | None,
    n_most: int,
) -> Generator[Draft, None, Draft]:
    generator = torch.Generator(device="cpu").manual_seed(settings.seed)
    choices: list[Choice] = []
    logits = writer.begin(source, prefix)[0]
    while len(choices) < n_most:
        choice = _choose(logits, settings, generator)
        choices.append(choice)
        if choice.id == end_id:
            return Draft(choices=tuple(choices), rows=(0,) * len(choices), has_ended=True)
        # The last token is read too: its row belongs to the trace.
        logits = writer.step([choice.id], [0])[0]
        yield Draft(choices=tuple(choices), rows=(0,) * (len(choices) + 1))
    return Draft(choices=tuple(choices), rows=(0,) * (len(choices) + 1))


def _choose(logits: Tensor, settings: WriteSettings, generator: torch.Generator) -> Choice:
    logits = logits.cpu()  # the only wait for the device
    log_p = log_probabilities(logits)
    id, chance, drawn_with = int(logits.argmax()), 1.0, None
    if settings.mode == "sample" and settings.temperature > 0.0:
        drawn_with = draw_probabilities(logits, settings)
        id = draw(drawn_with, generator)
        chance = float(drawn_with[id])
    values, ids = log_p.topk(min(settings.n_alternatives, len(log_p)))
    return Choice(
        id=id,
        log_probability=float(log_p[id]),
        chance=chance,
        best_ids=tuple(ids.tolist()),
        best_log_probabilities=tuple(values.tolist()),
        best_chances=() if drawn_with is None else tuple(drawn_with[ids].tolist()),
    )


def _search(
    writer: Writer,
    source: Sequence[int],
    prefix: Sequence[int],
    settings: WriteSettings,
    end_id: int | None,
    n_most: int,
) -> Generator[Draft, None, Draft]:
    search = BeamSearch(
        n_beams=settings.n_beams, alpha=settings.length_penalty, max_tokens=n_most, end_id=end_id
    )
    steps: list[_Best] = []
    logits = writer.begin(source, prefix)
    while True:
        log_p = log_probabilities(logits).cpu()
        steps.append(_Best.of(log_p, settings.n_alternatives))
        search.advance(log_p)
        yield _draft(search, steps, end_id)
        if search.is_done:
            break
        logits = writer.step(search.live_ids, search.live_rows)
    draft = _draft(search, steps, end_id)
    if draft.has_ended:
        return draft
    # Cut short: the best text goes on alone for one token, whose row belongs to the trace.
    writer.step([draft.choices[-1].id], [draft.rows[-1]])
    return Draft(choices=draft.choices, rows=(*draft.rows, 0), search=search)


@dataclass(frozen=True, slots=True)
class _Best:
    """The most probable tokens of each live text in one step."""

    ids: list[list[int]]
    log_probabilities: list[list[float]]

    @classmethod
    def of(cls, log_p: Tensor, n: int) -> "_Best":
        values, ids = log_p.topk(min(n, log_p.shape[1]), dim=1)
        return cls(ids.tolist(), values.tolist())


def _draft(search: BeamSearch, steps: list[_Best], end_id: int | None) -> Draft:
    node = search.best
    ids, rows = search.ids(node), search.rows(node)
    choices = tuple(
        Choice(
            id=id,
            log_probability=log_probability,
            chance=1.0,
            best_ids=tuple(step.ids[row]),
            best_log_probabilities=tuple(step.log_probabilities[row]),
        )
        for id, log_probability, row, step in zip(
            ids, search.log_probabilities(node), rows, steps, strict=False
        )
    )
    return Draft(choices=choices, rows=tuple(rows), has_ended=ids[-1:] == [end_id], search=search)
