"""Reformer's buckets and Funnel's pooled rows, laid back token by token, against slow float64 versions."""

import itertools
from pathlib import Path

import pytest
import torch
from hf_folders import bert_tokenizer, save_folder

from attnscope.errors import UserError
from attnscope.models import load
from attnscope.models.families import family_named, funnel, reformer
from attnscope.models.huggingface import attach, site_map
from attnscope.records import NO_GATES
from attnscope.trace import TraceProbe, site_weights

hf = pytest.importorskip("transformers")
hf_tiny = pytest.importorskip("hf_tiny")

pytestmark = pytest.mark.slow


def _reformer(kind: str = "ReformerModelWithLMHead", **changed):
    sizes = {
        "vocab_size": 60, "hidden_size": 32, "attention_head_size": 8, "num_attention_heads": 4,
        "feed_forward_size": 48, "attn_layers": ["local", "lsh", "lsh"], "axial_pos_embds": False,
        "max_position_embeddings": 64, "is_decoder": True, "local_attn_chunk_length": 4,
        "lsh_attn_chunk_length": 4, "num_buckets": 4, "num_hashes": 2, "hash_seed": 5,
    }  # fmt: skip
    model = getattr(hf, kind)(hf.ReformerConfig(**sizes | changed)).eval()
    hf_tiny.fill(model)
    return model


def _recorded(model, ids: torch.Tensor) -> list[torch.Tensor]:
    attached = attach(model)
    probe = TraceProbe(attached.sites, NO_GATES)
    with attached.probing(probe), torch.no_grad():
        model(input_ids=ids)
    return [site_weights(probe.records[site.key]) for site in attached.sites]


def _inputs_of(model, ids: torch.Tensor) -> list[tuple]:
    """Each attention of a pass with what it read and the buckets that it drew."""
    seen: list[tuple] = []
    parts = [part for part in model.modules() if hasattr(part, "chunk_length") and hasattr(part, "value")]

    def tell(part, args, kwargs, output):
        x = args[0] if args else kwargs["hidden_states"]
        seen.append((part, x[0].double(), getattr(output, "buckets", None)))

    hooks = [part.register_forward_hook(tell, with_kwargs=True) for part in parts]
    with torch.no_grad():
        model(input_ids=ids)
    for hook in hooks:
        hook.remove()
    return seen


@torch.no_grad()
def _slow_reformer(part, x: torch.Tensor, buckets, n_given: int, *, is_causal: bool) -> torch.Tensor:
    """P [H, T, T] with loops over rounds, queries and keys; `buckets` None: a text in its own order."""
    n, heads = len(x), part.num_attention_heads

    def split(matrix):
        return (x @ matrix.weight.double().T).unflatten(-1, (heads, -1)).transpose(0, 1)

    is_hashed = hasattr(part, "query_key")
    q = split(part.query_key if is_hashed else part.query)
    k = q * (q.square().mean(-1, keepdim=True) + 1e-6).rsqrt() if is_hashed else split(part.key)
    scores = q @ k.mT / q.shape[-1] ** 0.5
    found = torch.zeros(heads, n, n, dtype=torch.float64)
    size, is_whole = part.chunk_length, n <= part.chunk_length
    rounds = [None] if buckets is None else list(range(buckets.shape[2]))
    for h in range(heads):
        order = list(range(n))
        if buckets is not None:  # all rounds are sorted in one row, and looked at across their borders
            flat = buckets[0, h].flatten().tolist()
            order = [at % n for at in sorted(range(len(flat)), key=lambda at: (flat[at], at))]
        n_chunks = 1 if is_whole else len(order) // size
        rows: dict[int, list[tuple[list[int], list[float]]]] = {i: [] for i in range(n)}
        for c in range(n_chunks):
            around = [0] if is_whole else range(-part.num_chunks_before, part.num_chunks_after + 1)
            wide = n if is_whole else size
            keys = [order[((c + a) % n_chunks) * wide + m] for a in around for m in range(wide)]
            for i in order[c * wide : (c + 1) * wide]:
                values = []
                for j in keys:
                    is_hidden = (is_causal and j > i) or j >= n_given
                    value = -1e9 if is_hidden else float(scores[h, i, j])
                    values.append(-1e5 if is_hashed and i == j else value)
                rows[i].append((keys, values))
        for i in range(n):
            sums = [float(torch.tensor(values, dtype=torch.float64).logsumexp(0)) for _, values in rows[i]]
            assert len(sums) == len(rounds)
            total = float(torch.tensor(sums, dtype=torch.float64).logsumexp(0))
            for keys, values in rows[i]:
                for j, value in zip(keys, values, strict=True):
                    found[h, i, j] += torch.tensor(value - total, dtype=torch.float64).exp()
    return found[:, :n_given, :n_given]


@pytest.mark.parametrize("n", [1, 3, 4, 8, 11, 16])
@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"num_hashes": 1},
        {"num_hashes": 4, "num_buckets": [2, 4]},
        {"num_hashes": 3, "lsh_num_chunks_before": 0, "local_num_chunks_before": 2},
        {"is_decoder": False, "lsh_num_chunks_after": 1, "local_num_chunks_after": 1},
    ],
    ids=["two rounds", "one round", "factored buckets", "other chunks", "encoder"],
)
def test_that_buckets_are_laid_out_token_by_token(n: int, changed: dict) -> None:
    kind = "ReformerModelWithLMHead" if changed.get("is_decoder", True) else "ReformerForMaskedLM"
    model = _reformer(kind, **changed)
    ids = torch.arange(n)[None] * 7 % 50 + 5
    is_causal = model.config.is_decoder
    found = _recorded(model, ids)
    assert len(found) == 3
    for weights, (part, x, buckets) in zip(found, _inputs_of(model, ids), strict=True):
        expected = _slow_reformer(part, x, buckets, n, is_causal=is_causal)
        assert float((weights.nan_to_num(nan=0.0) - expected).abs().max()) <= 2e-5


def test_that_rotations_without_a_seed_are_the_same_in_every_pass_and_left_as_they_were() -> None:
    model = _reformer(hash_seed=None, local_attn_chunk_length=12, lsh_attn_chunk_length=12)
    ids = torch.arange(36)[None] + 5
    first, second = _recorded(model, ids), _recorded(model, ids)
    for one, other in zip(first, second, strict=True):
        torch.testing.assert_close(one, other, equal_nan=True, rtol=0, atol=0)
    hashed = [part for part in model.modules() if hasattr(part, "hash_seed")]
    assert [part.hash_seed for part in hashed] == [None, None]


def test_that_weights_which_do_not_give_the_layers_values_are_not_shown(monkeypatch) -> None:
    model = _reformer()
    monkeypatch.setattr(reformer, "_round_weights", lambda *_: torch.tensor(0.9))
    with pytest.raises(UserError, match="give other values than the layer"):
        _recorded(model, torch.arange(16)[None] + 5)


def test_that_a_text_with_too_many_weights_is_refused_before_the_pass(monkeypatch) -> None:
    model = _reformer()
    attached = attach(model)
    monkeypatch.setattr(site_map, "MAX_CELLS", 3 * 4 * 20**2 - 1)
    with (
        pytest.raises(UserError, match="returns 4800 weights"),
        attached.probing(TraceProbe(attached.sites, NO_GATES)),
        torch.no_grad(),
    ):
        model(torch.arange(20)[None] + 5)


def _funnel(kind: str = "FunnelForMaskedLM", **changed):
    sizes = {
        "vocab_size": 60, "block_sizes": [1, 2, 1], "num_decoder_layers": 1, "d_model": 32, "n_head": 4,
        "d_head": 8, "d_inner": 48,
    }  # fmt: skip
    model = getattr(hf, kind)(hf.FunnelConfig(**sizes | changed)).eval()
    hf_tiny.fill(model)
    return model


def _shares(n: int, level: int, *, has_own: bool, is_cut: bool) -> list[dict[int, float]]:
    """What each token counts in each row of a block, pair by pair."""
    rows: list[dict[int, float]] = [{t: 1.0} for t in range(n)]
    for _ in range(level):
        if has_own:
            rows = [rows[0], *(rows[:-1] if is_cut else rows)]
        pairs = [rows[k : k + 2] for k in range(0, len(rows), 2)]
        rows = []
        for pair in pairs:
            row: dict[int, float] = {}
            for one in pair:
                for token, share in one.items():
                    row[token] = row.get(token, 0.0) + share / len(pair)
            rows.append(row)
    return rows


@pytest.mark.parametrize("n", [5, 8, 9, 16])
@pytest.mark.parametrize(
    ("has_own", "is_cut", "pools_queries", "kind"),
    [
        *((*flags, "relative_shift") for flags in itertools.product((True, False), repeat=3)),
        (True, True, True, "factorized"),
    ],
)
def test_that_pooled_rows_are_shared_out_to_their_tokens(
    n: int, has_own: bool, is_cut: bool, pools_queries: bool, kind: str
) -> None:
    model = _funnel(separate_cls=has_own, truncate_seq=is_cut, pool_q_only=pools_queries, attention_type=kind)
    ids = torch.arange(n)[None] * 7 % 50 + 5
    with torch.no_grad():
        try:
            own = model(input_ids=ids, output_attentions=True).attentions
        except RuntimeError:
            pytest.skip("the library cannot read a text of this length with this pooling")
    levels = [(0, 0), (1, 0 if pools_queries else 1), (1, 1), (2, 1 if pools_queries else 2), (0, 0)]
    found = _recorded(model, ids)
    assert len(found) == len(levels)
    for weights, p, (of_queries, of_keys) in zip(found, own, levels, strict=True):
        rows, keys = (_shares(n, level, has_own=has_own, is_cut=is_cut) for level in (of_queries, of_keys))
        expected = torch.zeros(4, n, n, dtype=torch.float64)
        for (r, tokens), (c, of_key) in itertools.product(enumerate(rows), enumerate(keys)):
            for i, (j, share) in itertools.product(tokens, of_key.items()):
                expected[:, i, j] += p[0, :, r, c].double() * share
        is_empty = expected.sum(-1)[0] == 0
        assert weights[:, is_empty].isnan().all()
        assert bool(is_empty.any()) == (is_cut and has_own and of_queries > 0)
        assert float((weights.nan_to_num(nan=0.0) - expected).abs().max()) <= 1e-6


def test_that_means_of_blocks_are_what_the_library_pools() -> None:
    from transformers.models.funnel.modeling_funnel import FunnelAttentionStructure

    for has_own, is_cut, n in itertools.product((True, False), (True, False), (3, 4, 7, 12, 13)):
        structure = FunnelAttentionStructure(
            hf.FunnelConfig(separate_cls=has_own, truncate_seq=is_cut, hidden_dropout=0.0)
        )
        pooled = torch.eye(n)[None]
        for means in funnel.means_of_blocks(n, 4, has_own_first=has_own, is_cut=is_cut)[1:]:
            pooled = structure.pool_tensor(pooled)
            torch.testing.assert_close(means, pooled[0])


def test_that_the_kept_reformers_buckets_are_those_of_a_slow_version_on_its_sample() -> None:
    opened = load("reformer", "cpu")
    ids = torch.tensor([opened.encode(opened.info.samples[0].text).source.ids])
    model, n = opened.network.module, ids.shape[1]
    assert n == 56
    found = _recorded(model, ids)
    for weights, (part, x, buckets) in zip(found, _inputs_of(model, ids), strict=True):
        expected = _slow_reformer(part, x, buckets, n, is_causal=False)
        weights = weights.nan_to_num(nan=0.0)
        assert float((weights - expected).abs().max()) <= 2e-5
        assert float((weights.sum(-1) - 1).abs().max()) <= 1e-5
        assert bool((weights == 0).any())


def test_that_the_kept_funnels_rows_are_the_librarys_pooled_ones_shared_out_on_its_sample() -> None:
    opened = load("funnel", "cpu")
    ids = torch.tensor([opened.encode(opened.info.samples[0].text).source.ids])
    model, n = opened.network.module, ids.shape[1]
    with torch.no_grad():
        own = model(input_ids=ids, output_attentions=True).attentions
    assert [tuple(p.shape[2:]) for p in own] == [(n, n), (n // 2, n), (n // 4, n // 2), (n, n)]
    levels = [(0, 0), (1, 0), (2, 1), (0, 0)]
    for weights, p, (of_queries, of_keys) in zip(_recorded(model, ids), own, levels, strict=True):
        rows, keys = (_shares(n, level, has_own=True, is_cut=True) for level in (of_queries, of_keys))
        expected = torch.zeros(4, n, n, dtype=torch.float64)
        for (r, tokens), (c, of_key) in itertools.product(enumerate(rows), enumerate(keys)):
            for i, (j, share) in itertools.product(tokens, of_key.items()):
                expected[:, i, j] += p[0, :, r, c].double() * share
        assert float((weights.nan_to_num(nan=0.0) - expected).abs().max()) <= 1e-6


@pytest.mark.parametrize("build", [_reformer, _funnel], ids=["reformer", "funnel"])
def test_that_a_folder_opens_and_is_traced(tmp_path: Path, build) -> None:
    model = build(vocab_size=120)
    model.config.pad_token_id = 1
    save_folder(tmp_path / "m", model, bert_tokenizer())
    opened = load(tmp_path / "m", "cpu")
    assert opened.trace("the end of the way is the end of the way").check().is_good
    assert "computes attention in its own code" in opened.info.note
    assert ("in the order of the text" in opened.info.note) == (build is _reformer)


def test_that_a_text_too_short_for_the_librarys_funnel_is_refused_in_a_sentence(tmp_path: Path) -> None:
    save_folder(tmp_path / "m", _funnel(vocab_size=120), bert_tokenizer())
    with pytest.raises(
        UserError, match=r"pools tokens in pairs.* cannot read a text of 3 tokens\. Expected: a longer text"
    ):
        load(tmp_path / "m", "cpu").trace("the")


def test_that_these_families_are_no_longer_refused() -> None:
    assert not family_named("reformer").not_a_map
    assert not family_named("funnel").not_a_map
