"""Removes heads from any model, with a check that nothing else changed.

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

from attnscope.errors import SaveError, UserError
from attnscope.files import replace_folder
from attnscope.models.checkpoint import ModelCard, fill_model_folder, without_closed
from attnscope.models.huggingface.network import HuggingFaceNetwork
from attnscope.models.huggingface.proof import example_of
from attnscope.models.huggingface.pruning import (
    Removal,
    RemovalPlan,
    SitePlan,
    build_plan,
    prune_foreign,
    removal_name,
    removed_heads_card,
    require_removal,
    weights_file_bytes,
)
from attnscope.models.inputs import Inputs, noise_pictures
from attnscope.models.network import Network
from attnscope.models.own import OwnNetwork
from attnscope.nn import ModelConfig, count_parameters, empty_own, stop_if_unwanted
from attnscope.nn.kept_heads import HeadLayout, KeptHeads, site_name
from attnscope.nn.long_work import ended
from attnscope.nn.own_module import OwnModule
from attnscope.records.importance import (
    MAX_RELATIVE_DIFFERENCE,
    ModelSize,
    PruneShape,
    PruningProof,
    PruningReport,
    SiteHeads,
    SpeedChange,
)
from attnscope.records.sites import NO_GATES, Gates, GateTable, SiteKey
from attnscope.records.tokens import Tokens
from attnscope.schemes.positions import POSITIONS
from attnscope.schemes.scores import SCORES
from attnscope.trace.record import GateProbe

# Removing heads from our own models: smaller matrices, the same logits; name, card and tokenizer go along.


def prune_own(network: OwnNetwork, gates: Gates) -> Removal:
    """The smaller network; its card maps old heads to new ones."""
    module = prune_module(network.module, gates)
    sites = _site_heads(network.config, module.config)
    source = network.info.source
    made_from = f"{network.card.name} (weights SHA-256 {network.info.sha256 or 'not saved'})"
    card = ModelCard(
        name=removal_name(network.card.name, sites),
        objective=network.card.objective,
        training=without_closed(network.card.training),
        labels=network.card.labels,
        text=network.card.text.rstrip() + "\n" + removed_heads_card(sites, made_from=made_from),
    )
    smaller = OwnNetwork(module, network.vocabulary, card)
    return Removal(
        network=smaller,
        sites=sites,
        before=replace(
            _size(network.module), file_bytes=weights_file_bytes(Path(source)) if source else None
        ),
        after=_size(module),
        opens_in="AttnScope",
        write=lambda folder: fill_model_folder(folder, module, module.config, network.vocabulary, card),
        notes=_uneven_notes(module.config),
    )


def _size(module: OwnModule) -> ModelSize:
    n_bytes = sum(parameter.numel() * parameter.element_size() for parameter in module.parameters())
    return ModelSize(n_parameters=count_parameters(module.config).total, n_bytes=n_bytes)


def _site_heads(before: ModelConfig, after: ModelConfig) -> tuple[SiteHeads, ...]:
    n_before = {key: len(heads) for key, heads in original_heads(before).items()}
    return tuple(
        SiteHeads(stack=key[0], layer=key[1], n_before=n_before[key], heads=heads)
        for key, heads in original_heads(after).items()
    )


def _uneven_notes(config: ModelConfig) -> tuple[str, ...]:
    uneven = [
        f"{stack} L{layer}" for stack, layer in config.site_keys() if not config.layout(stack, layer).is_even
    ]
    if not uneven:
        return ()
    names = ", ".join(uneven)[:200]
    return (f"Key-value heads serve unequal numbers of heads at: {names}. Their weights are kept once.",)


def prune_module(module: OwnModule, gates: Gates) -> OwnModule:
    """A smaller copy without the heads whose gate is 0, other gates folded in; evaluation mode.

    The copy says in `config.kept_heads` which heads it kept. Raises UserError for a head the model does
    not have, or that cannot go; `module` is left alone.
    """
    plan = build_plan(module.sites(), gates)
    _require_removable(module.config, plan)
    config = replace(module.config, kept_heads=_kept(module.config, plan) or None)
    some = module.tokens.weight
    smaller = empty_own(config, some.device).to(some.dtype)
    tensors = module.state_dict()
    for key in module.config.headed_keys():
        _cut_site(tensors, module.config, config, key, plan.at(key))
    with torch.no_grad():
        for name, parameter in smaller.state_dict().items():
            parameter.copy_(tensors[name])
    return smaller.eval()


def original_heads(config: ModelConfig) -> dict[SiteKey, tuple[int, ...]]:
    """For each site the original numbers of its heads, before any removal; none for an empty site."""
    return {key: config.layout(*key).heads for key in config.site_keys()}


def _kept(config: ModelConfig, plan: RemovalPlan) -> KeptHeads:
    kept = []
    for stack, layer in config.headed_keys():
        old = config.layout(stack, layer).heads
        site = plan.at((stack, layer))
        left = tuple(old[head] for head in site.kept) if site is not None else old
        if len(left) < config.n_heads:
            kept.append((site_name(stack, layer), left))
    return tuple(kept)


def _cut_site(
    tensors: dict[str, Tensor],
    old: ModelConfig,
    new: ModelConfig,
    key: SiteKey,
    plan: SitePlan | None,
) -> None:
    """Replace the tensors of one site by those of its smaller self."""
    if plan is None:
        return  # it had lost all its heads before
    stack, layer = key
    module = "cross" if stack == "cross" else "attention"
    prefix = f"{'encoder' if stack == 'encoder' else 'decoder'}.{layer}.{module}."
    if old.is_recurrent:
        prefix = "cross."
        _cut_centre(tensors, plan.kept)
    before, after, d = old.layout(*key), new.layout(*key), old.head_width
    output = tensors.pop(prefix + "output.weight")
    bias = tensors.pop(prefix + "output.bias", None)
    if not after.heads:
        if bias is not None:
            tensors[prefix + "bias"] = bias
        return
    for name in (SCORES[old.score].learned, *POSITIONS[old.position].of_heads, "span", "open_at"):
        learned = f"{prefix}scoring.{name}"
        if learned in tensors:  # one row a head
            tensors[learned] = tensors[learned][list(plan.kept)]
    scales = torch.tensor(plan.scales, dtype=output.dtype, device=output.device).repeat_interleave(d)
    tensors[prefix + "output.weight"] = output[:, rows_of_heads(plan.kept, d, device=output.device)] * scales
    if bias is not None:
        tensors[prefix + "output.bias"] = bias
    for name, heads in _inputs(module, before, after, plan.kept).items():
        rows = rows_of_heads(heads, d, device=output.device)
        for part in ("weight", "bias"):
            if prefix + f"{name}.{part}" in tensors:
                tensors[prefix + f"{name}.{part}"] = tensors[prefix + f"{name}.{part}"][rows]


def _cut_centre(tensors: dict[str, Tensor], kept: tuple[int, ...]) -> None:
    """Keep the predictor of the positions of some heads of a recurrent model, one row a head."""
    for name in ("centre.matrix", "centre.vector"):
        if name in tensors:
            tensors[name] = tensors[name][list(kept)]


def _inputs(
    module: str, before: HeadLayout, after: HeadLayout, kept: tuple[int, ...]
) -> dict[str, tuple[int, ...]]:
    """Row blocks of each input matrix to keep, counted in heads."""
    kv = tuple(before.kv_heads.index(head) for head in after.kv_heads)
    n, k = before.n_heads, before.n_kv_heads
    if module == "cross":
        return {"query": kept, "kv": (*kv, *(k + head for head in kv))}
    return {"qkv": (*kept, *(n + head for head in kv), *(n + k + head for head in kv))}


def rows_of_heads(heads: tuple[int, ...], d_head: int, *, device: torch.device | str = "cpu") -> Tensor:
    """The rows, or columns, that belong to some heads: int64 [n · d_head]."""
    first = torch.tensor(heads, dtype=torch.int64, device=device)[:, None] * d_head
    return (first + torch.arange(d_head, device=device)).flatten()


def _require_removable(config: ModelConfig, plan: RemovalPlan) -> None:
    """Raise UserError for a head that cannot be removed, or whose gate cannot be folded into the weights."""
    if (config.has_inducing or config.has_latents) and any(
        site.removed or site.folded
        for site in plan.sites
        if site.site.stack in ("encoder", "read-in", "latents")
    ):
        raise UserError(
            "Heads that read inducing points or latents, or fill them, cannot be removed for good.",
            expected="their gates at 1",
            action="Close their gates instead: that gives the same output.",
        )
    if not config.n_labels:
        return
    owners = set(config.headed_keys())
    for site in plan.sites:
        if site.site.key in owners:
            continue
        if site.site.stack == "second":
            _require_same(site, plan.at(("encoder", site.site.layer)))
        elif site.removed or site.folded:
            raise UserError(
                f"The head of {site.site.stack} L{site.site.layer} cannot be removed: it is the only way "
                "from the tokens to the label.",
                expected="its gate at 1",
                action="Open its gate again; heads of the encoder can be removed.",
            )


def _require_same(second: SitePlan, first: SitePlan | None) -> None:
    if first is not None and (second.kept, second.scales) == (first.kept, first.scales):
        return
    layer = second.site.layer
    raise UserError(
        f"The gates of encoder L{layer} and second L{layer} differ, but the same weights read both texts.",
        expected="the same gates at both",
        action="Set each head's gate alike for both texts, or open it for both.",
    )


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
    """A smaller network checked against the gated one, and the report on it."""

    report: PruningReport
    removal: Removal

    @property
    def network(self) -> Network:
        return self.removal.network

    def save(self, folder: str | Path) -> PruningReport:
        """Save it as a model folder; the report gets the true size on disk. Raises SaveError."""
        require_proof(self.report.proof)
        place = Path(folder)
        replace_folder(place, self.removal.write)
        after = replace(self.report.after, file_bytes=weights_file_bytes(place))
        return replace(self.report, after=after, folder=str(place))


def shapes_of(network: Network) -> tuple[PruneShape, ...]:
    """The forms in which a smaller copy can be saved."""
    return ("small",) if isinstance(network, OwnNetwork) else ("small", "same")


def prune(
    network: Network,
    gates: Gates | GateTable,
    text: Inputs | None = None,
    *,
    shape: PruneShape = "small",
    has_speed: bool = True,
) -> Pruned:
    """See `pruning`, in one go."""
    return ended(pruning(network, gates, text, shape=shape, has_speed=has_speed))


def pruning(
    network: Network,
    gates: Gates | GateTable,
    text: Inputs | None = None,
    *,
    shape: PruneShape = "small",
    has_speed: bool = True,
) -> Generator[str, None, Pruned]:
    """A copy without the heads whose gate is 0, other gates folded in.

    The proof reads `text`, where there is one, and random ids. Raises SaveError when the copy does not say
    what the gated network says, UserError when no head is off or heads cannot be removed from this kind of
    network. `network` is left alone. Of the same shape nothing is smaller or faster, so that no speed is
    measured. What is done next is yielded in words; a caller may stop there.
    """
    frozen = gates.frozen() if isinstance(gates, GateTable) else gates
    plan = build_plan(network.sites, frozen)
    require_removal(plan)
    yield "Removing heads"
    removal = _remove(network, frozen, shape)
    yield "Comparing every logit"
    cases = _cases(network, text)
    proof = prove_equal(_runner(network, frozen), _runner(removal.network, NO_GATES), cases)
    require_proof(proof)
    has_speed = has_speed and shape == "small"
    if has_speed:
        yield "Measuring the speed"
    speed = _speed(network, removal.network, cases[0]) if has_speed else None
    report = PruningReport(
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
    return Pruned(report=report, removal=removal)


def _remove(network: Network, gates: Gates, shape: PruneShape) -> Removal:
    if isinstance(network, OwnNetwork):
        return prune_own(network, gates)
    from attnscope.models.huggingface.opening import open_network  # the library is optional

    def reopen(folder: Path, name: str) -> Network:
        return open_network(folder, network.device, name=name)

    return prune_foreign(network, gates, shape, reopen)


def _cases(network: Network, text: Inputs | None) -> list[Case]:
    """The text, if there is one, then random ids; for a model of pictures, random pixels."""
    cases: list[Case] = [] if text is None else [text]
    if network.info.reads == "picture" and isinstance(network, HuggingFaceNetwork):
        return cases + random_pictures(network.module)
    if network.info.reads == "picture" and isinstance(network, OwnNetwork):
        return cases + noise_pictures(network.config, N_RANDOM_TEXTS, _SEED)
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
    """Number of ids known to both the model and its tokenizer."""
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
    """Pairs of a source and a target of random ids, always the same: of `n_tokens` and shorter."""
    generator = torch.Generator().manual_seed(_SEED)
    n_most = max(1, min(n_tokens, N_RANDOM_TOKENS))

    def ids(n: int) -> tuple[int, ...]:
        return tuple(torch.randint(n_pieces, (n,), generator=generator).tolist())

    lengths = [max(1, n_most // (1 + i)) for i in range(N_RANDOM_TEXTS)]
    return tuple((ids(n), ids(lengths[-1 - i])) for i, n in enumerate(lengths))


def random_pictures(model: Any) -> list[Tensor]:
    """Pixels of noise, −1…1, as a model of the library transformers reads them; always the same."""
    shape = example_of(model)["pixel_values"][:1].shape  # [1, channels, height, width]
    generator = torch.Generator().manual_seed(_SEED)
    return [2.0 * torch.rand(shape, generator=generator) - 1.0 for _ in range(N_RANDOM_TEXTS)]


@torch.no_grad()
def prove_equal(gated: RunCase[CaseT], smaller: RunCase[CaseT], cases: Sequence[CaseT]) -> PruningProof:
    """The largest difference over all logits of all cases; NaN counts as infinite."""
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
    """Raise SaveError unless the check is passed."""
    if not proof.is_good:
        raise SaveError(
            f"Nothing was saved: the output of the pruned model differs from that of the gated one "
            f"({proof.sentence}).",
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
    """Both models on one case, alternating in changing order, after one warm-up pass each."""
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
