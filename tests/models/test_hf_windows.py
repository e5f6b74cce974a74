"""Longformer, LED and BigBird: their windows laid back into token by token, against dense attention."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hf_folders import bert_tokenizer, change_config, save_folder, seq2seq_tokenizer

from attnscope.errors import UserError
from attnscope.models import load
from attnscope.models.families import lay_windows
from attnscope.models.huggingface import attach, site_map
from attnscope.records import NO_GATES
from attnscope.trace import TraceProbe, site_weights

hf = pytest.importorskip("transformers")
hf_tiny = pytest.importorskip("hf_tiny")

pytestmark = pytest.mark.slow

REACH = 3


def _longformer(kind: str):
    config = hf.LongformerConfig(
        **hf_tiny.ENCODER | {"max_position_embeddings": 130}, attention_window=2 * REACH
    )
    config.sep_token_id = 2
    model = getattr(hf, kind)(config).eval()
    hf_tiny.fill(model)
    return model


def _led():
    config = hf.LEDConfig(
        vocab_size=60, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, attention_window=2 * REACH,
        max_encoder_position_embeddings=128, max_decoder_position_embeddings=32, decoder_start_token_id=2,
        **hf_tiny.IDS,
    )  # fmt: skip
    model = hf.LEDForConditionalGeneration(config).eval()
    hf_tiny.fill(model)
    return model


def _dense(module, hidden: torch.Tensor, n: int, first: int) -> torch.Tensor:
    """Weights [H, n, n] in float64: each token on its window and the `first` global ones, those on all."""

    def split(projected: torch.Tensor) -> torch.Tensor:
        return projected[0, :n].double().unflatten(-1, (module.num_heads, -1)).transpose(0, 1)

    scale = module.head_dim**-0.5
    q, k = split(module.query(hidden)) * scale, split(module.key(hidden))
    scores = q @ k.mT
    index = torch.arange(n)
    far = (index[:, None] - index[None]).abs() > module.one_sided_attn_window_size
    far[:, :first] = False
    scores[:, far] = -torch.inf
    if first:
        own = split(module.query_global(hidden)) * scale @ split(module.key_global(hidden)).mT
        scores[:, :first] = own[:, :first]
    return scores.softmax(dim=-1)


def _found_and_dense(model, ids: torch.Tensor, first: int):
    """The recorded weights of each encoder layer, and the reference for each."""
    attached = attach(model)
    probe = TraceProbe(attached.sites, NO_GATES)
    modules = [part for part in model.modules() if hasattr(part, "one_sided_attn_window_size")]
    seen: dict[int, torch.Tensor] = {}
    hooks = [
        part.register_forward_pre_hook(
            lambda _, args, kwargs, i=i: seen.update({i: args[0] if args else kwargs["hidden_states"]}),
            with_kwargs=True,
        )
        for i, part in enumerate(modules)
    ]
    more = {"decoder_input_ids": ids[:, :5]} if model.config.is_encoder_decoder else {}
    with attached.probing(probe), torch.no_grad():
        model(input_ids=ids, **more)
        expected = [_dense(part, seen[i], ids.shape[1], first) for i, part in enumerate(modules)]
    for hook in hooks:
        hook.remove()
    return [site_weights(probe.records["encoder", i]) for i in range(len(modules))], expected


@pytest.mark.parametrize("n", [1, 2, 6, 7, 20, 48])
@pytest.mark.parametrize(
    ("build", "first"),
    [
        (lambda: _longformer("LongformerForMaskedLM"), 0),
        (lambda: _longformer("LongformerForSequenceClassification"), 1),
        (_led, 0),
    ],
    ids=["longformer", "with a global token", "led"],
)
def test_that_windows_are_shown_token_by_token(build, first: int, n: int) -> None:
    ids = torch.arange(n)[None] * 7 % 50 + 5
    for found, expected in zip(*_found_and_dense(build(), ids, first), strict=True):
        assert found.shape == expected.shape
        far = expected == 0
        assert bool((found.nan_to_num(nan=0.0)[far] == 0).all())
        assert float((found.nan_to_num(nan=0.0) - expected).abs().max()) <= 1e-6


@pytest.mark.parametrize("n_global", [0, 1, 3])
@pytest.mark.parametrize("reach", [1, 2, 5])
def test_that_windows_of_any_reach_are_laid_where_they_belong(reach: int, n_global: int) -> None:
    n = 7
    places = torch.tensor([0, 2, 5][:n_global], dtype=torch.long)
    p = torch.rand(2, 3, n, n_global + 2 * reach + 1) + 0.1
    p[:, :, places] = 0.0
    g = torch.rand(2, 3, n_global, n) + 0.1 if n_global else None
    expected = torch.zeros(2, 3, n, n)
    for t in range(n):
        for c in range(2 * reach + 1):
            if 0 <= t - reach + c < n:
                expected[..., t, t - reach + c] = p[..., t, n_global + c]
        for i, place in enumerate(places):
            expected[..., t, place] += p[..., t, i]
    for i, place in enumerate(places):
        expected[..., place, :] = g[..., i, :]
    assert torch.equal(lay_windows(p, g), expected)


def test_that_a_text_with_too_many_weights_is_refused_before_they_are_laid_out(monkeypatch) -> None:
    model = _longformer("LongformerForMaskedLM")
    attached = attach(model)
    monkeypatch.setattr(site_map, "MAX_CELLS", 2 * 4 * 20**2 - 1)
    probe = TraceProbe(attached.sites, NO_GATES)
    with pytest.raises(UserError, match="returns 3200 weights"), attached.probing(probe), torch.no_grad():
        model(torch.arange(20)[None] + 5)


def test_that_a_folder_of_longformer_opens_and_says_what_it_shows(tmp_path: Path) -> None:
    config = hf.LongformerConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, vocab_size=120,
        max_position_embeddings=130, attention_window=4, pad_token_id=1,
    )  # fmt: skip
    save_folder(tmp_path / "m", hf.LongformerForMaskedLM(config), bert_tokenizer())
    model = load(tmp_path / "m", "cpu")
    trace = model.trace("the end of the way")
    assert trace.check().is_good
    assert "computes attention in its own code" in model.info.note


def test_that_led_opens_with_the_limits_of_both_sides(tmp_path: Path) -> None:
    save_folder(tmp_path / "m", _led_of(300), seq2seq_tokenizer())
    model = load(tmp_path / "m", "cpu")
    assert model.trace("the end", target="the way").check().is_good
    assert (model.info.max_tokens, {site.stack for site in model.info.sites}) == (
        128,
        {"encoder", "decoder", "cross"},
    )


def _led_of(n_pieces: int):
    config = _led().config
    config.vocab_size = n_pieces
    return hf.LEDForConditionalGeneration(config)


def test_that_the_kept_models_windows_and_global_token_are_those_of_dense_attention() -> None:
    for name in ("longformer", "led"):
        opened = load(name, "cpu")
        ids = torch.tensor([opened.encode(opened.info.samples[0].text).source.ids])
        assert ids.shape[1] > 6 * opened.network.module.config.attention_window[0]
        for found, expected in zip(*_found_and_dense(opened.network.module, ids, 1), strict=True):
            assert bool((found[:, 0] > 0).all())
            assert bool((found[:, :, 0] > 0).all())
            found = found.nan_to_num(nan=0.0)
            assert float((found - expected).abs().max()) <= 1e-6
            assert float((found.sum(-1) - 1).abs().max()) <= 1e-5


def test_that_an_led_without_a_word_on_global_tokens_has_none(tmp_path: Path) -> None:
    save_folder(tmp_path / "m", _led_of(300), seq2seq_tokenizer())
    found = load(tmp_path / "m", "cpu").trace("the end of the way", target="the").all_weights(("encoder", 0))
    assert float(found.nan_to_num(nan=0.0)[:, 0, REACH + 1 :].max()) == 0
    change_config(tmp_path / "m", attnscope={"global_tokens": 2})
    opened = load(tmp_path / "m", "cpu")
    assert "Global tokens of its encoder: the first 2." in opened.info.note
    found = opened.trace("the end of the way", target="the").all_weights(("encoder", 0))
    assert float(found[:, :2].min()) > 0
    assert float(found[:, :, :2].min()) > 0
    assert opened.generate("the end of the way", max_tokens=3) is not None


def _bigbird(folder: Path, **changed):
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = hf.BigBirdConfig(
        **sizes
        | {"vocab_size": 120, "max_position_embeddings": 64, "block_size": 2, "num_random_blocks": 1}
        | changed
    )
    model = hf.BigBirdForMaskedLM(config)
    hf_tiny.fill(model)
    save_folder(folder, model, bert_tokenizer())
    return folder


def _blocks_seen(module, n: int) -> torch.Tensor:
    """How often each head lets each query see each key, [H, n, n], block by block (Zaheer et al. 2020, 2)."""
    b, r = module.block_size, module.num_random_blocks
    n_padded = -(-n // b) * b
    n_blocks = n_padded // b
    drawn = [[[0] * r for _ in range(n_blocks - 2)] for _ in range(module.num_attention_heads)]
    if module.training:
        np.random.seed(module.seed)
        lengths, counts = module._get_rand_attn_plan(n_padded, b, r)
        drawn = module._bigbird_block_rand_mask_with_head(
            n_padded, n_padded, b, b, len(drawn), lengths, counts
        )
    seen = torch.zeros(len(drawn), n_padded, n_padded, dtype=torch.float64)
    for h, rows in enumerate(drawn):
        for i in range(n_blocks):
            near = {0, n_blocks - 1, *range(max(0, i - 1), min(n_blocks, i + 2))}
            far = [] if i in (0, n_blocks - 1) else list(rows[i - 1])
            for j in range(n_blocks) if i in (0, n_blocks - 1) else [*near, *far]:
                seen[h, i * b : (i + 1) * b, j * b : (j + 1) * b] += 1
    return seen[:, :n, :n]


def _found_and_blocks(opened, text: str):
    """The weights that are shown of each layer, and those of dense attention in float64 on what is seen."""
    inputs, modules = opened.encode(text), []
    model = opened.network.module
    seen: dict[int, torch.Tensor] = {}

    def tell(part, args, kwargs) -> None:
        modules.append(part.self)
        seen[len(seen)] = args[0] if args else kwargs["hidden_states"]

    hooks = [
        layer.attention.register_forward_pre_hook(tell, with_kwargs=True)
        for layer in model.base_model.encoder.layer
    ]
    trace = opened.trace(text)
    for hook in hooks:
        hook.remove()
    n, expected = len(inputs.source), []
    for module, x in zip(modules[:2], list(seen.values())[:2], strict=True):
        q, k = (
            matrix(x)[0, :n].double().unflatten(-1, (module.num_attention_heads, -1)).transpose(0, 1)
            for matrix in (module.query, module.key)
        )
        is_blocks = hasattr(module, "block_size")
        times = _blocks_seen(module, n) if is_blocks else torch.ones(1, n, n, dtype=torch.float64)
        weights = times * (q @ k.mT / q.shape[-1] ** 0.5).exp()
        expected.append(weights / weights.sum(-1, keepdim=True))
    return [trace.all_weights(site.key).nan_to_num(nan=0.0) for site in opened.info.sites], expected


@pytest.mark.parametrize("is_drawing", [False, True])
@pytest.mark.parametrize("n_words", [12, 13, 18, 25])
def test_that_bigbirds_blocks_are_shown_token_by_token(
    tmp_path: Path, n_words: int, is_drawing: bool
) -> None:
    folder = _bigbird(tmp_path / "m", num_random_blocks=2 if n_words > 18 else 1)
    if is_drawing:
        change_config(folder, attnscope={"random_blocks": True})
    opened = load(folder, "cpu")
    assert opened.info.max_tokens == 64
    before = np.random.get_state()[1].copy()
    for text in (
        " ".join(["the end"] * (n_words // 2) + ["way"] * (n_words % 2)),
        "the end",
        "the way " * 15,
    ):
        for found, expected in zip(*_found_and_blocks(opened, text), strict=True):
            assert float((found - expected).abs().max()) <= 1e-6
            assert float((found.sum(-1) - 1).abs().max()) <= 1e-5
    assert bool((found == 0).any())
    if is_drawing:
        assert bool(((found > 0)[0] != (found > 0)[1]).any())  # each head has drawn others
    else:
        assert (before == np.random.get_state()[1]).all()
    assert ("the library draws" in opened.info.note) is True


def test_that_drawing_blocks_leaves_numpys_own_generator_as_it_was(tmp_path: Path) -> None:
    folder = _bigbird(tmp_path / "m")
    change_config(folder, attnscope={"random_blocks": True})
    opened = load(folder, "cpu")
    np.random.seed(7)
    before = np.random.get_state()[1].copy()
    opened.trace("the end of the way " * 6)
    assert (before == np.random.get_state()[1]).all()


def test_that_the_kept_bigbird_sees_blocks_that_each_head_drew() -> None:
    opened = load("bigbird", "cpu")
    for found, expected in zip(*_found_and_blocks(opened, opened.info.samples[0].text), strict=True):
        assert float((found - expected).abs().max()) <= 1e-6
        assert float((found.sum(-1) - 1).abs().max()) <= 1e-5
        assert len({(head > 0).numpy().tobytes() for head in found}) == len(found)


def test_that_bigbird_with_full_attention_throughout_stays_so(tmp_path: Path) -> None:
    folder = _bigbird(tmp_path / "m")
    change_config(folder, attention_type="original_full")
    full = load(folder, "cpu")
    assert bool((full.trace("the way " * 15).all_weights(("encoder", 0)) > 0).all())
