import math

import numpy as np
import pytest
import torch
from references import ov_matrix, qk_matrix
from tiny_models import FORMS, FRENCH, SENTENCE, target_of, tiny_model

from attnscope.analysis import (
    HeadDivergences,
    divergence_sums,
    head_circuit,
    head_pairs,
    head_weights,
    product_spectrum,
    site_spectrum,
    subject_of,
    token_factors,
)
from attnscope.errors import UserError
from attnscope.nn import MaskRule, attend
from attnscope.records import HeadCircuit, HeadPairs, HeadRef

W1 = torch.tensor([[1, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]])
W2 = torch.tensor([[1, 0, 0], [0.4, 0.6, 0], [0.1, 0.1, 0.8]])


def test_that_the_hand_fixture_comes_out_to_four_digits() -> None:
    pair = torch.stack((W1, W2))
    rows = [float(divergence_sums(pair[:, i : i + 1])[0, 1]) for i in range(3)]
    np.testing.assert_allclose(rows, [0, 0.005059, 0.052122], atol=1e-6)
    assert float(divergence_sums(pair)[0, 1]) == pytest.approx(0.057181, abs=1e-6)


def test_that_divergences_run_from_0_to_ln_2() -> None:
    eye, back = torch.eye(4), torch.eye(4).roll(1, dims=1)
    sums = divergence_sums(torch.stack((eye, back, eye)))
    assert float(sums[0, 2]) == 0.0
    assert float(sums[0, 1]) == pytest.approx(4 * math.log(2))
    assert torch.equal(sums, sums.T)


@pytest.mark.parametrize("form", FORMS)
def test_that_sums_over_texts_equal_a_slow_version(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnscope.analysis.importance._BLOCK_CELLS", 40)
    model = tiny_model(form)
    stack = model.sites[-1].stack
    sites = [site for site in model.sites if site.stack == stack]
    heads = [head for site in sites for head in site.heads]
    sums, total, n = HeadDivergences(heads), np.zeros((8, 8)), 0
    for text in (SENTENCE, "a dog saw"):
        trace = model.trace(text, target_of(form))
        before = {key: record.lse.clone() for key, record in trace.records.items()}
        sums.add(trace, stack)
        assert all(torch.equal(trace.records[key].lse, kept) for key, kept in before.items())
        maps = [np.nan_to_num(trace.weights(head.site_key, head.head).astype(np.float64)) for head in heads]
        n += len(maps[0])
        for i in range(8):
            for j in range(8):
                total[i, j] += sum(slow_js(p, q) for p, q in zip(maps[i], maps[j], strict=True))
    np.testing.assert_allclose(sums.total, total, atol=2e-5)
    assert (sums.n_queries, sums.n_texts) == (n, 2)
    np.testing.assert_allclose(sums.mean(), total / n, atol=1e-5)


def slow_js(p: np.ndarray, q: np.ndarray) -> float:
    m = (p + q) / 2
    return sum(0.5 * x * math.log(x / y) for r in (p, q) for x, y in zip(r, m, strict=True) if x > 0)


def test_that_rows_without_a_key_do_not_count() -> None:
    blind = torch.stack((W1, W2))
    blind[:, 1] = math.nan
    heads = [HeadRef(stack="encoder", layer=0, head=h) for h in range(2)]
    sums = HeadDivergences(heads)
    sums.add_weights(blind)
    assert sums.n_queries == 2
    assert sums.total[0, 1] == pytest.approx(0.052122, abs=1e-6)


def test_that_heads_whose_queries_see_nothing_are_not_called_alike() -> None:
    heads = [HeadRef(stack="encoder", layer=0, head=h) for h in range(2)]
    sums = HeadDivergences(heads)
    sums.add_weights(torch.full((2, 3, 3), math.nan))
    with pytest.raises(UserError, match="no query that sees a key"):
        sums.pairs("encoder")


def test_that_every_pair_of_heads_of_a_stack_is_compared() -> None:
    model = tiny_model("encoder-decoder")
    *progress, pairs = head_pairs(model, [(SENTENCE, FRENCH), ("the cat", "le chat")], "cross")
    assert isinstance(pairs, HeadPairs)
    assert (len(progress), len(pairs.heads), pairs.divergences.shape) == (2, 8, (8, 8))
    assert (pairs.n_texts, pairs.stack) == (2, "cross")
    assert (np.diag(pairs.divergences) == 0).all()
    assert (pairs.divergences[np.triu_indices(8, k=1)] > 0).all()
    with pytest.raises(UserError, match="at least two"):
        list(head_pairs(tiny_model("decoder", n_layers=1, n_heads=1, n_kv_heads=1), [SENTENCE]))


# -- weights alone --------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["decoder", "encoder-decoder"])
def test_that_a_heads_own_weights_give_its_scores_and_outputs(form: str) -> None:
    """Known by use: with biases at 0 and no norm, x through the weights is what attention computes."""
    model = tiny_model(form, bias=False)
    subject = subject_of(model)
    for site in model.sites:
        weights, block = head_weights(subject, site.key), subject.block(site.key)
        x = (torch.arange(80.0) ** 2 * 0.731).sin().reshape(1, 5, 16)
        rule = MaskRule()
        with torch.no_grad():
            if site.stack == "cross":
                found = block.cross(x, x, rule=rule)[0]
            else:
                found = block.attention(x, rule=rule)[0]
        y = x[0].double()
        expected = torch.zeros(5, 16, dtype=torch.float64)
        for h in range(4):
            head = HeadRef(stack=site.stack, layer=site.layer, head=h)
            a = (y @ qk_matrix(model, head) @ y.T).softmax(-1)
            expected += a @ y @ ov_matrix(model, head)
            q, k, v = (y @ part[h].T for part in (weights.q, weights.k, weights.v))
            out = attend(q[None, None], k[None, None], v[None, None], rule=rule, score=weights.scale)[0, 0]
            torch.testing.assert_close(a @ v, out)
        torch.testing.assert_close(found.double(), expected, atol=1e-5, rtol=0)


def test_that_spectra_are_singular_values_of_the_products() -> None:
    model = tiny_model("encoder-decoder")
    subject = subject_of(model)
    for spectrum in (site_spectrum(model, site.key) for site in model.sites):
        weights = head_weights(subject, spectrum.site.key)
        for h in range(4):
            expected = torch.linalg.svdvals(weights.q[h].T @ weights.k[h])
            np.testing.assert_allclose(spectrum.single[h], expected[:4], atol=1e-9)
        stacked = sum(weights.q[h].T @ weights.k[h] for h in range(4))
        np.testing.assert_allclose(spectrum.stacked, torch.linalg.svdvals(stacked), atol=1e-9)
        assert spectrum.stacked_energy()[-1] == pytest.approx(1.0)


def test_that_heads_that_share_dimensions_need_few() -> None:
    shared, own = torch.randn(2, 4, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    q, k = shared.repeat(3, 1), own.repeat(3, 1)
    values = product_spectrum(q, k)
    assert int((values > 1e-9).sum()) == 4


@pytest.mark.parametrize("kind", ["ov", "qk"])
@pytest.mark.parametrize("form", FORMS)
def test_that_token_pairs_are_the_extremes_of_the_whole_matrix(
    form: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnscope.analysis.one_head._BLOCK_CELLS", 50)
    model = tiny_model(form)
    head = model.sites[-1].heads[1]
    left, right = token_factors(subject_of(model), head, kind)  # type: ignore[arg-type]
    whole = left @ right.T
    *progress, found = head_circuit(model, head, kind, top=4)  # type: ignore[arg-type]
    assert isinstance(found, HeadCircuit)
    assert len(progress) > 2
    values, places = whole.flatten().topk(4)
    n = whole.shape[1]
    for pair, value, place in zip(found.largest, values.tolist(), places.tolist(), strict=True):
        assert (pair.first.id, pair.second.id) == (place // n, place % n)
        assert pair.value == pytest.approx(value, abs=1e-5)
    values, places = whole.flatten().topk(4, largest=False)
    for pair, value, place in zip(found.smallest, values.tolist(), places.tolist(), strict=True):
        assert (pair.first.id, pair.second.id) == (place // n, place % n)
        assert pair.value == pytest.approx(value, abs=1e-5)
    eigenvalues = torch.linalg.eigvals(whole.double())
    expected = float(eigenvalues.real.sum() / eigenvalues.abs().sum())
    assert found.sameness == pytest.approx(expected, abs=1e-3)
    with pytest.raises(UserError):
        list(head_circuit(model, HeadRef(stack="encoder", layer=9, head=0), kind))  # type: ignore[arg-type]


def test_that_more_pairs_than_a_block_holds_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnscope.analysis.one_head._BLOCK_CELLS", 50)
    model = tiny_model("decoder")
    head = model.sites[0].heads[0]
    left, right = token_factors(subject_of(model), head, "qk")
    n_top = len(left) * len(right) - 1  # a block is a row here
    *_, found = head_circuit(model, head, "qk", top=n_top)
    assert isinstance(found, HeadCircuit)
    expected = (left @ right.T).flatten().topk(n_top).values.tolist()
    assert [pair.value for pair in found.largest] == pytest.approx(expected, abs=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("norm_place", ["pre", "post"])
@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_that_a_cross_heads_factors_read_each_text_as_its_stack_gives_it(norm_place: str, norm: str) -> None:
    model = tiny_model("encoder-decoder", norm_place=norm_place, norm=norm, scale_embeddings=True)
    module, subject, h = model.own.module, subject_of(model), 2
    site = next(site for site in model.sites if site.stack == "cross")
    block = subject.block(site.key)
    attention = block.cross
    d, group = attention.d_head, attention.n_heads // attention.n_kv_heads
    norms = (module.encoder_norm, module.decoder_norm, block.cross_norm, block.attention_norm)
    for i, norm_part in enumerate(norms):
        if norm_part is not None:
            norm_part.weight.copy_(torch.linspace(0.5, 1.5, 16).roll(3 * i))
    entered = module.tokens.weight * 16**0.5
    reading = block.cross_norm(entered) if norm_place == "pre" else entered
    read = entered if module.encoder_norm is None else module.encoder_norm(entered)
    keys, values = attention.kv.weight.double().reshape(2, attention.n_kv_heads, d, -1)[:, h // group]
    left, right = token_factors(subject, site.heads[h], "qk")
    queries = attention.query.weight.double()[d * h : d * h + d]
    expected = reading.double() @ queries.T @ keys @ read.double().T * d**-0.5
    torch.testing.assert_close((left @ right.T).double(), expected, atol=1e-4, rtol=1e-4)
    left, right = token_factors(subject, site.heads[h], "ov")
    rows = (module.tokens.weight if module.head.weight is None else module.head.weight).double()
    if module.decoder_norm is not None and getattr(module.decoder_norm, "weight", None) is not None:
        rows = rows * module.decoder_norm.weight.double()
        rows = rows - rows.mean(-1, keepdim=True) if norm == "layer" else rows
    written = attention.output.weight.double()[:, d * h : d * h + d]
    expected = read.double() @ values.T @ written.T @ rows.T
    torch.testing.assert_close((left @ right.T).double(), expected, atol=1e-4, rtol=1e-4)


def test_that_the_ov_factors_are_a_heads_direct_path() -> None:
    """Attending wholly to a token adds its OV row to the logits, but for the last norm's scale and mean."""
    model = tiny_model("decoder", bias=False, position="none")
    subject = subject_of(model)
    head = HeadRef(stack="decoder", layer=0, head=3)
    left, right = token_factors(subject, head, "ov")
    module = subject.module
    with torch.no_grad():
        read = module.decoder[0].attention_norm(module.tokens.weight[9])
        written = read.double() @ ov_matrix(model, head)
        centred = written - written.mean()
        expected = module.tokens.weight.double() @ (centred * module.decoder_norm.weight.double())
    torch.testing.assert_close((left @ right.T)[9].double(), expected, atol=1e-5, rtol=0)


def test_that_the_output_s_own_layer_counts_with_its_matrix() -> None:
    """As BERT's: rows times the norm's weight, centred, through the layer's matrix; there is no last norm."""
    model = tiny_model("encoder", transform_head=True, norm_place="post")
    subject, head = subject_of(model), model.sites[0].heads[1]
    module = subject.module
    with torch.no_grad():
        rows = (module.tokens.weight if module.head.weight is None else module.head.weight).double()
        rows = rows * module.head.norm.weight.double()  # type: ignore[union-attr,operator]
        rows = rows - rows.mean(dim=-1, keepdim=True)
        rows = rows @ module.head.transform.weight.double()  # type: ignore[union-attr]
    _, right = token_factors(subject, head, "ov")
    expected = rows @ head_weights(subject, head.site_key).o[head.head]
    torch.testing.assert_close(right.double(), expected, atol=1e-5, rtol=1e-4)


def test_that_a_head_that_copies_says_so() -> None:
    model = tiny_model("decoder", n_heads=1, n_kv_heads=1, n_layers=1, bias=False)
    attention = model.own.module.decoder[0].attention
    with torch.no_grad():
        attention.output.weight.copy_(torch.eye(16))
        attention.qkv.weight[32:].copy_(torch.eye(16))
        attention.qkv.weight[:16].copy_(torch.eye(16))
        attention.qkv.weight[16:32].copy_(-torch.eye(16))
    head = HeadRef(stack="decoder", layer=0, head=0)
    assert list(head_circuit(model, head, "ov"))[-1].sameness > 0.8
    assert list(head_circuit(model, head, "qk"))[-1].sameness == pytest.approx(-1.0, abs=1e-3)
