"""Every score, mask, position scheme and norm: traced, kept, pruned, counted, learned, explained.

What is checked here needs no line for a new one. Its own formula is checked in a test of its own.
"""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from public_models import VARIANTS
from tiny_models import SENTENCE, target_of, tiny_model

import attnscope as at
from attnscope.models import BatchShape, Model, activation_bytes, own_cost, prune_module
from attnscope.nn import KeyValueCache, ModelConfig, build_own, build_transformer, count_parameters
from attnscope.schemes import Scheme, schemes_of
from attnscope.schemes.masks import MASKS
from attnscope.schemes.norms import NORMS
from attnscope.schemes.positions import POSITIONS
from attnscope.schemes.scores import SCORES
from attnscope.trace import load_trace
from attnscope.training import Batch, loss_sum
from attnscope.viewmodels import read_help

HELP = Path(__file__).parents[2] / "resources" / "help"
FAMILIES = {"score": SCORES, "mask": MASKS, "position": POSITIONS, "norm": NORMS}
SMALL = {
    "window": 2, "mask_block": 2, "random_blocks": 1, "prefix_tokens": 3, "n_buckets": 8, "max_distance": 6,
    "segment_tokens": 4, "segment_memory": 3,
}  # fmt: skip
NOT_OF_DECODERS = {name for name, norm in NORMS.items() if norm.is_nothing or norm.is_of_batch}
"""No norm, with which these decoders do not learn, and norms over a batch."""
SCHEMES = [
    (key, name)
    for key, family in FAMILIES.items()
    for name in family
    if not (key == "norm" and name in NOT_OF_DECODERS)
]
NETWORK = {
    "vocab_size": 13, "d_model": 24, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "d_ff": 20,
    "max_tokens": 24, "d_head": 8,
    **SMALL,
}  # fmt: skip
pytestmark = pytest.mark.slow
each = pytest.mark.parametrize(("key", "name"), SCHEMES, ids=[f"{key}={name}" for key, name in SCHEMES])


def forms_of(key: str, name: str) -> tuple[str, ...]:
    has_prefix = key == "mask" and MASKS[name].has_prefix
    return ("decoder",) if has_prefix else ("decoder", "encoder-decoder")


def config_of(key: str, name: str, form: str = "decoder", **choices: object) -> ModelConfig:
    values = {**NETWORK, "form": form, "position": "none", key: name}
    return ModelConfig.from_dict({**values, **choices})


def test_that_each_has_a_place_of_its_own_and_words() -> None:
    for family in FAMILIES.values():
        orders = [scheme.order for scheme in family.values()]
        assert len(orders) == len(set(orders))
        for name, scheme in family.items():
            assert scheme.name == name
            assert scheme.title
            assert getattr(scheme, "words", "") or getattr(scheme, "formula", "")


@each
def test_that_the_help_lists_it(key: str, name: str) -> None:
    scheme = FAMILIES[key][name]
    (recipes,) = (page for page in read_help(HELP) if page.name == "recipes")
    words = getattr(scheme, "words", "") or getattr(scheme, "formula", "")
    (line,) = (line for line in recipes.text.splitlines() if line.startswith(f"- `{name}`: {words}"))
    assert scheme.source in line
    assert all(f"`{choice}`" in line for choice in scheme.choices)


@each
def test_that_a_trace_of_it_proves_itself_and_survives_a_file(key: str, name: str, tmp_path: Path) -> None:
    for form in forms_of(key, name):
        model = tiny_model(form, **SMALL, **{key: name})
        trace = model.trace(SENTENCE, target_of(form))
        assert trace.check().is_good, (form, trace.check())
        trace.save(tmp_path / "trace.safetensors")
        again = load_trace(tmp_path / "trace.safetensors")
        for site, head in ((one, head) for one in trace.sites for head in range(one.n_heads)):
            weights = trace.weights(site, head)
            np.testing.assert_allclose(np.nansum(weights, axis=1), 1.0, atol=1e-5)
            np.testing.assert_array_equal(again.weights(site, head), weights)
            np.testing.assert_allclose(trace.row(site, head, 2), weights[2], atol=4e-6)


@each
def test_that_it_is_the_same_after_it_was_saved_and_opened(key: str, name: str, tmp_path: Path) -> None:
    for form in forms_of(key, name):
        model = tiny_model(form, **SMALL, **{key: name})
        model.save(tmp_path / form)
        again, text = at.load(tmp_path / form, device="cpu"), (SENTENCE, target_of(form))
        assert again.own.config == model.own.config
        np.testing.assert_array_equal(again.trace(*text).logits, model.trace(*text).logits)


@each
def test_that_a_pruned_head_leaves_what_a_closed_gate_leaves(key: str, name: str) -> None:
    for form in forms_of(key, name):
        model = tiny_model(form, **SMALL, **{key: name})
        gates = model.gates()
        gates["decoder", 1, 2] = gates["decoder", 0, 1] = 0.0
        if form == "encoder-decoder":
            gates["cross", 0, 3] = gates["encoder", 1, 0] = 0.0
        gated = model.trace(SENTENCE, target_of(form), gates).logits
        own = model.own
        smaller = Model(type(own)(prune_module(own.module, gates.frozen()), own.vocabulary, own.card))
        found = smaller.trace(SENTENCE, target_of(form))
        np.testing.assert_allclose(found.logits, gated, atol=2e-5 * max(1.0, float(np.abs(gated).max()) / 10))
        assert found.check().is_good
        assert count_parameters(smaller.own.config).total == sum(
            parameter.numel() for parameter in smaller.own.module.parameters()
        )


@each
@torch.no_grad()
def test_that_a_text_read_in_parts_is_a_text_read_at_once(key: str, name: str) -> None:
    model = build_transformer(config_of(key, name), seed=0).eval()
    ids, cache = torch.arange(21)[None] % 13, KeyValueCache()
    if not model.can_cache:
        with pytest.raises(ValueError, match="not read in parts"):
            model.decode(ids, cache=cache)
        return
    parts = [model.decode(part, cache=cache) for part in ids.split([4, 1, 1, 5, 1, 9], dim=1)]
    torch.testing.assert_close(torch.cat(parts, dim=1), model.decode(ids), atol=2e-5, rtol=0)


@each
@torch.no_grad()
def test_that_no_token_of_a_decoder_changes_by_what_comes_later(key: str, name: str) -> None:
    model = build_transformer(config_of(key, name), seed=0).eval()
    ids = torch.arange(12)[None] % 13
    later = ids.clone()
    later[0, 8:] = 5
    torch.testing.assert_close(model.decode(later)[:, :8], model.decode(ids)[:, :8], atol=1e-6, rtol=0)
    assert (model.decode(later)[:, 8:] - model.decode(ids)[:, 8:]).abs().max() > 1e-3


@each
def test_that_the_count_on_paper_is_that_of_the_built_model_and_every_number_learns(
    key: str, name: str
) -> None:
    for form in forms_of(key, name):
        config = config_of(key, name, form)
        model = build_transformer(config, seed=1)
        assert count_parameters(config).total == sum(p.numel() for p in model.parameters())
        for other in model.parameters():  # those that begin alike may have gradients that cancel
            other.data += 0.02 * torch.sin(torch.arange(other.numel()).reshape(other.shape) * 0.7)
        ids = torch.arange(2 * 9).reshape(2, 9) % 13
        logits = model(ids, target_ids=ids if form == "encoder-decoder" else None)
        logits.square().sum().backward()
        unlearned = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
        assert not [name for name in unlearned if "positions" not in name], form
        assert own_cost(config, 9).forward > 0


@each
def test_that_what_training_keeps_is_told_to_a_seventh(key: str, name: str) -> None:
    n, n_texts, vocabulary = 40, 3, 300
    sizes = {"vocab_size": vocabulary, "d_model": 48, "n_kv_heads": 4, "d_ff": 96, "max_tokens": n}
    config = config_of(key, name, **sizes, max_distance=128, n_buckets=32)
    module, ids = build_own(config, 0).train(), torch.arange(n_texts * n).reshape(n_texts, n) % vocabulary
    batch = Batch(
        ids=ids, scored=torch.arange(n_texts * n), labels=torch.zeros(n_texts * n, dtype=torch.int64)
    )
    own = {p.untyped_storage().data_ptr() for p in [*module.parameters(), *module.buffers()]}
    kept: dict[int, torch.Tensor] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        assert loss_sum(module, batch).isfinite()
    found = sum(t.untyped_storage().nbytes() for address, t in kept.items() if address not in own)
    told = activation_bytes(config, BatchShape(n_sequences=n_texts, n_tokens=n, n_scored=n_texts * n))
    assert told == pytest.approx(found - 4 * n_texts * n * vocabulary, rel=0.15)


@each
@pytest.mark.parametrize("has_bfloat16", [False, True], ids=["float32", "bfloat16"])
def test_that_a_few_steps_of_training_learn_a_batch(key: str, name: str, has_bfloat16: bool) -> None:
    model = build_transformer(config_of(key, name, n_layers=1), seed=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    text, losses = torch.randint(0, 13, (4, 12), generator=torch.Generator().manual_seed(1)), []
    for _ in range(12):
        with torch.autocast("cpu", torch.bfloat16, enabled=has_bfloat16):
            logits = model(text[:, :-1])
        loss = F.cross_entropy(logits.float().flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert np.isfinite(losses).all()
    assert losses[-1] < 0.9 * losses[0]


def test_that_the_kept_numbers_are_of_schemes_that_there_are() -> None:
    """`public_numbers.json` holds those of before; a new scheme is checked here and need not join them."""
    for values in VARIANTS.values():
        for key, family in FAMILIES.items():
            assert values.get(key, next(iter(family))) in family


def test_that_schemes_come_in_one_order_and_two_of_one_name_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = "from attnscope.schemes import Scheme\nclass {0}(Scheme):\n    name = {1!r}\n"
    for package, names in (("apart", ("c", "a", "b")), ("alike", ("c", "a", "c"))):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
        for k, name in enumerate(names):
            (tmp_path / package / f"m{k}.py").write_text(kind.format(f"K{k}", name))
    monkeypatch.syspath_prepend(str(tmp_path))
    assert list(schemes_of("apart", Scheme)) == ["c", "a", "b"]
    with pytest.raises(ValueError, match="alike has two schemes called 'c'"):
        schemes_of("alike", Scheme)
