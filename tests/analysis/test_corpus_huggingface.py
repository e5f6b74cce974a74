"""Models of Hugging Face's library over a corpus: the numbers of their single texts, norms included."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hf_folders import make, save_folder

from attnscope import measure, measure_texts
from attnscope.analysis import batch_kind, encode_corpus, length_batches
from attnscope.models import Model, load

pytest.importorskip("transformers")

TEXTS = ["the animal said it", "she said go home", "the animal cross street because it was too tired"]
COMMON = ("entropy", "distance", "confidence", "previous", "first", "diagonal")


@pytest.fixture
def open_model(tmp_path: Path) -> Any:
    return lambda kind: load(save_folder(tmp_path / kind, *make(kind)), "cpu")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bert", "gpt2", "t5"])
def test_that_a_corpus_is_the_mean_of_its_texts(open_model: Any, kind: str) -> None:
    model: Model = open_model(kind)
    texts: Any = [(text, text) for text in TEXTS] if model.info.takes_target else TEXTS
    assert batch_kind(model) == "equal"
    batches = list(length_batches(model, encode_corpus(model, texts)))
    assert sorted(one.number for batch in batches for one in batch) == [0, 1, 2]
    table = measure_texts(model, texts).table
    pairs = [text if isinstance(text, tuple) else (text, None) for text in texts]
    single = [measure(model.trace(*pair)) for pair in pairs]
    for row, head in enumerate(table.heads):
        for name in COMMON:
            mean = np.mean([getattr(one[row], name) for one in single])
            np.testing.assert_allclose(table.estimate(head, name).value, mean, atol=2e-5, err_msg=name)
    assert table.estimate(table.heads[0], "stripe").is_known


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_that_norms_are_those_of_the_librarys_own_matrices(open_model: Any, kind: str) -> None:
    model: Model = open_model(kind)
    table = measure_texts(model, TEXTS[:1]).table
    module = model.network.module
    if kind == "bert":
        output = module.bert.encoder.layer[0].attention.output.dense.weight.detach().T
    else:
        output = module.transformer.h[0].attn.c_proj.weight.detach()
    site = model.sites[0]
    record = model.trace(TEXTS[0], keep_values=True).records[site.key]
    d_head = record.q.shape[2]
    weights = model.trace(TEXTS[0]).all_weights(site).nan_to_num(nan=0.0)
    for head in range(site.n_heads):
        written = record.v[head] @ output[head * d_head : (head + 1) * d_head]
        norms = (weights[head] * written.norm(dim=1)).sum(dim=1).mean()
        found = table.estimate(site.heads[head], "norm").value
        np.testing.assert_allclose(found, float(norms), rtol=1e-4)


def test_that_pairs_without_targets_measure_the_encoder_alone(open_model: Any) -> None:
    assert {head.stack for head in measure_texts(open_model("t5"), TEXTS).table.heads} == {"encoder"}
