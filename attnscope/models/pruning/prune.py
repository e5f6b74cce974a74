"""Removing heads from any model, with the proof that nothing else changed.

The gated model and the smaller one read the given text (or picture) and random ids (or pixels); unless
every logit agrees, or without an output head every number of the last stream, there is no smaller model to
be had, and so none to be saved. Random ids make texts that nobody would ever write. Whether the smaller one
is faster is asked of the models themselves too.

    symbol   meaning                        shape
    case     one text as a model reads it   whatever the two functions take
    logits   what a model says of a case    [n_tokens, n_answers], float32
"""

import statistics
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from attnscope.errors import SaveError
from attnscope.files import replace_folder
from attnscope.models.huggingface.network import HuggingFaceNetwork
from attnscope.models.huggingface.proof import example_of
from attnscope.models.inputs import Inputs
from attnscope.models.model import Model
from attnscope.models.network import Network
from attnscope.models.own import OwnNetwork
from attnscope.models.pruning.huggingface import prune_foreign
from attnscope.models.pruning.own import prune_own
from attnscope.models.pruning.plan import Plan, build_plan, require_removal
from attnscope.models.pruning.removal import Removal, weights_file_bytes
from attnscope.nn.stopping import stop_if_unwanted
from attnscope.records.pruning import (
    MAX_RELATIVE_DIFFERENCE,
    PruneShape,
    PruningProof,
    PruningReport,
    SpeedChange,
)
from attnscope.records.sites import NO_GATES, Gates, GateTable
from attnscope.records.tokens import Tokens
from attnscope.trace.probe import GateProbe

N_RANDOM_TEXTS = 3
N_RANDOM_TOKENS = 32
_SEED = 20_170_612
N_TURNS = 15
MAX_SPEED_S = 6.0
"""Turns end early when they have taken so long."""

CaseT = TypeVar("CaseT")
RunCase = Callable[[CaseT], Tensor]
Case = Inputs | Tensor
"""A text or a picture as a model reads it, or the pixels of one, [1, channels, height, width]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """A smaller model that was proved to say what the gated one says, and the report on it."""

    model: Model
    report: PruningReport
    removal: Removal

    def save(self, folder: str | Path) -> PruningReport:
        """Write it as a model folder; the report with the true size on disk. Raises SaveError."""
        require_proof(self.report.proof)
        place = Path(folder)
        replace_folder(place, self.removal.write)
        after = replace(self.report.after, file_bytes=weights_file_bytes(place))
        return replace(self.report, after=after, folder=str(place))


def shapes_of(model: Model) -> tuple[PruneShape, ...]:
    """The shapes that a smaller copy can be saved in."""
    return ("small",) if isinstance(model.network, OwnNetwork) else ("small", "same")


def prune(
    model: Model,
    gates: Gates | GateTable,
    *,
    text: str = "",
    target: str | None = None,
    shape: PruneShape = "small",
    has_speed: bool = True,
) -> Pruned:
    """See `pruning`, in one go."""
    steps = pruning(model, gates, text=text, target=target, shape=shape, has_speed=has_speed)
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            pruned: Pruned = stop.value
            return pruned


def pruning(
    model: Model,
    gates: Gates | GateTable,
    *,
    text: str = "",
    target: str | None = None,
    shape: PruneShape = "small",
    has_speed: bool = True,
) -> Generator[str, None, Pruned]:
    """A copy without the heads whose gate is 0, other gates multiplied in.

    The proof reads `text`, with `target` or what the model itself writes, and random ids. Raises
    SaveError when the copy does not say what the gated model says, UserError when no head is off or
    heads cannot be removed from this kind of model. `model` is left alone. Of the same shape nothing is
    smaller or faster, so that no speed is measured. What is done next is yielded
    in words; a caller may stop there.
    """
    frozen = gates.frozen() if isinstance(gates, GateTable) else gates
    plan = build_plan(model.sites, frozen)
    require_removal(plan)
    yield "Removing heads"
    removal = _remove(model, frozen, shape)
    yield "Comparing every logit"
    cases = _cases(model, text, target)
    proof = prove_equal(_runner(model.network, frozen), _runner(removal.network, NO_GATES), cases)
    require_proof(proof)
    has_speed = has_speed and shape == "small"
    if has_speed:
        yield "Measuring the speed"
    speed = _speed(model.network, removal.network, cases[0]) if has_speed else None
    return Pruned(
        model=Model(removal.network), report=_report(plan, removal, shape, proof, speed), removal=removal
    )


def prune_model(
    model: Model, gates: Gates | GateTable, *, text: str = "", target: str | None = None
) -> tuple[Model, PruningReport]:
    """See `prune`: the smaller model and its report, without measuring the speed."""
    pruned = prune(model, gates, text=text, target=target, has_speed=False)
    return pruned.model, pruned.report


def _remove(model: Model, gates: Gates, shape: PruneShape) -> Removal:
    if isinstance(model.network, OwnNetwork):
        return prune_own(model.network, gates)
    from attnscope.models.huggingface.opening import open_network  # the library is optional

    def reopen(folder: Path, name: str) -> Network:
        return open_network(folder, model.device, name=name)

    return prune_foreign(model.network, gates, shape, reopen)


def _report(
    plan: Plan, removal: Removal, shape: PruneShape, proof: PruningProof, speed: SpeedChange | None
) -> PruningReport:
    return PruningReport(
        shape=shape,
        opens_in=removal.opens_in,
        sites=removal.sites,
        removed=plan.removed,
        folded=plan.folded,
        before=removal.before,
        after=removal.after,
        proof=proof,
        speed=speed,
        notes=removal.notes,
    )


def _cases(model: Model, text: str, target: str | None) -> list[Case]:
    """The text, when there is one, then random ids; of a model that reads pictures random pixels."""
    cases: list[Case] = [model.encode(text, target)] if text.strip() else []
    network = model.network
    if model.info.reads == "picture" and isinstance(network, HuggingFaceNetwork):
        return cases + random_pictures(network.module)
    n_tokens = min(network.max_tokens, N_RANDOM_TOKENS)
    is_own_pair = isinstance(network, OwnNetwork) and network.config.reads_pair
    reads_two = network.form == "encoder-decoder" or is_own_pair
    for source, second in random_ids(_n_pieces(network), n_tokens=n_tokens):
        cases.append(
            Inputs(
                source=_tokens(network, source),
                target=_tokens(network, second) if reads_two else None,
            )
        )
    return cases


def _n_pieces(network: Network) -> int:
    """How many ids the model and its tokenizer both know."""
    if isinstance(network, OwnNetwork):
        return network.config.vocab_size
    sizes = [getattr(network.vocabulary, "size", None), network.info.vocab_size]
    if isinstance(network, HuggingFaceNetwork):
        sizes[1] = network.module.get_input_embeddings().weight.shape[0]
    return min(size for size in sizes if isinstance(size, int))


def _tokens(network: Network, ids: tuple[int, ...]) -> Tokens:
    return Tokens(text="", tokens=tuple(network.vocabulary.token(id) for id in ids))


def _runner(network: Network, gates: Gates) -> RunCase[Case]:
    probe = GateProbe(network.sites, gates) if gates else None

    def run(case: Case) -> Tensor:
        if isinstance(network, HuggingFaceNetwork):
            return network.say_all(case, probe)
        if isinstance(case, Tensor):
            raise ValueError("pixels for a network of ours")
        return network.run(case, probe).logits()

    return run


def _speed(before: Network, after: Network, case: Case) -> SpeedChange:
    n_tokens = before.max_tokens
    if isinstance(case, Inputs):
        n_tokens = len(case.source) + (0 if case.target is None else len(case.target))
    return compare_speed(_runner(before, NO_GATES), _runner(after, NO_GATES), case, n_tokens=n_tokens)


def random_ids(n_pieces: int, *, n_tokens: int) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    """Pairs of a source and a target of random ids, the same every time: at most `n_tokens` and shorter."""
    generator = torch.Generator().manual_seed(_SEED)
    n_most = max(1, min(n_tokens, N_RANDOM_TOKENS))

    def ids(n: int) -> tuple[int, ...]:
        return tuple(torch.randint(n_pieces, (n,), generator=generator).tolist())

    lengths = [max(1, n_most // (1 + i)) for i in range(N_RANDOM_TEXTS)]
    return tuple((ids(n), ids(lengths[-1 - i])) for i, n in enumerate(lengths))


def random_pictures(model: Any) -> list[Tensor]:
    """Pixels of noise, −1…1, as a model of the library transformers reads them; the same every time."""
    shape = example_of(model)["pixel_values"][:1].shape  # [1, channels, height, width]
    generator = torch.Generator().manual_seed(_SEED)
    return [2.0 * torch.rand(shape, generator=generator) - 1.0 for _ in range(N_RANDOM_TEXTS)]


@torch.no_grad()
def prove_equal(gated: RunCase[CaseT], smaller: RunCase[CaseT], cases: Sequence[CaseT]) -> PruningProof:
    """The largest difference over all logits of all cases; what is not a number counts as infinite."""
    difference = largest = 0.0
    n_logits = 0
    for case in cases:
        stop_if_unwanted()
        expected, found = gated(case), smaller(case)
        if expected.shape != found.shape:
            raise ValueError(f"logits {list(found.shape)}, expected {list(expected.shape)}")
        difference = max(difference, _worst((found - expected).abs()))
        largest = max(largest, _worst(expected.abs()))
        n_logits += expected.numel()
    return PruningProof(
        max_difference=difference, largest_logit=largest, n_texts=len(cases), n_logits=n_logits
    )


def require_proof(proof: PruningProof) -> None:
    """Raise SaveError unless the proof is good."""
    if not proof.is_good:
        raise SaveError(
            f"Nothing was saved: the pruned model does not say what the gated one says ({proof.sentence}).",
            expected=f"a difference of at most {MAX_RELATIVE_DIFFERENCE:g} of the largest logit",
            action="Where weights have 16 bits, set gates between 0 and 1 to 0 or 1 and try again.",
        )


@torch.no_grad()
def compare_speed(
    before: RunCase[CaseT],
    after: RunCase[CaseT],
    case: CaseT,
    *,
    n_tokens: int,
    n_turns: int = N_TURNS,
    max_s: float = MAX_SPEED_S,
) -> SpeedChange:
    """Both models on one case, taking turns in changing order, after one pass each to warm up."""
    for run in (before, after):
        _time_ms(run, case)
    pairs: list[tuple[float, float]] = []
    start = time.perf_counter()
    while len(pairs) < n_turns and (len(pairs) < 3 or time.perf_counter() - start < max_s):
        if len(pairs) % 2:
            late = _time_ms(after, case)
            pairs.append((_time_ms(before, case), late))
        else:
            pairs.append((_time_ms(before, case), _time_ms(after, case)))
    low, middle, high = statistics.quantiles([b / a for b, a in pairs], n=4, method="inclusive")
    return SpeedChange(
        before_ms=statistics.median(b for b, _ in pairs),
        after_ms=statistics.median(a for _, a in pairs),
        ratio=middle,
        ratio_low=low,
        ratio_high=high,
        n_turns=len(pairs),
        n_tokens=n_tokens,
    )


def _time_ms(run: RunCase[CaseT], case: CaseT) -> float:
    stop_if_unwanted()
    start = time.perf_counter()
    # Reading one number waits for an accelerator to finish.
    float(run(case).flatten()[-1:].sum())
    return max((time.perf_counter() - start) * 1000.0, 1e-6)


def _worst(values: Tensor) -> float:
    worst = float(values.max()) if values.numel() else 0.0
    return worst if worst == worst else float("inf")
