"""Interventions and gates on models of the library, through the same door as our own."""

from pathlib import Path

import numpy as np
import pytest
from hf_folders import make, save_folder

from attnscope.models import load
from attnscope.records import CopyPattern, Gates, MakeMean, MakeUniform, RemoveEdge

pytestmark = pytest.mark.slow

TEXTS = {
    "bert": "the animal was too tired",
    "gpt2": "the animal in a",
    "llama": "the animal in a",
    "t5": "go home",
}


@pytest.mark.parametrize("kind", TEXTS)
def test_that_interventions_act_on_models_of_the_library(kind: str, tmp_path: Path) -> None:
    model = load(save_folder(tmp_path / kind, *make(kind)), "cpu")
    text = TEXTS[kind]
    site = model.sites[0]
    first, second = site.heads[0], site.heads[1]
    plain = model.trace(text)
    assert plain.check().is_good
    changes = (
        RemoveEdge(head=first, query=2, key=1),
        MakeUniform(head=second),
    )
    trace = model.trace(text, interventions=changes)
    assert trace.check().is_good
    edge, uniform = trace.weights(site, 0), trace.weights(site, 1)
    assert np.isnan(edge[2, 1])
    np.testing.assert_allclose(np.nansum(edge, axis=1), 1.0, atol=1e-5)
    seen = (~np.isnan(plain.weights(site, 1))).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.nan_to_num(uniform), (~np.isnan(uniform)) / seen, atol=1e-5)
    copied = model.trace(text, interventions=(CopyPattern(head=first, from_head=second, text=text),))
    np.testing.assert_allclose(copied.weights(site, 0), plain.weights(site, 1), atol=1e-5)
    for change in (*changes, MakeMean(head=first)):
        found = model.compare(text, interventions=(change,), n_continue=0)
        assert len(found.kl_nats) == len(model.compare(text, n_continue=0).kl_nats)
    gated = model.compare(text, None, Gates.of({first: 0.0}), interventions=(MakeUniform(head=first),))
    alone = model.compare(text, None, Gates.of({first: 0.0}))
    np.testing.assert_allclose(gated.kl_nats, alone.kl_nats, atol=1e-7)
