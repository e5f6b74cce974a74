"""A family is one file: with it the logit lens, pruning and fine-tuning know a kind of model."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from added_files import look_also_in
from hf_folders import bert_tokenizer, save_folder

from attnscope.analysis import logit_lens, output_matrices
from attnscope.errors import UserError
from attnscope.models import families, load, prune
from attnscope.models.families import FAMILIES, Family, PrunableFamily, last_norms
from attnscope.records import Gates
from attnscope.schemes import schemes_of
from attnscope.training import adopt

transformers = pytest.importorskip("transformers")

TEXT = "the animal did not cross"
ADDED = """
from attnscope.models.families.bert import BERT


class ERNIE(BERT):
    name, title, order, alike = "ernie", "ERNIE", 9, ("ernie-like",)
    prefix = "ernie."
"""


@pytest.fixture
def ernie(tmp_path: Path) -> Path:
    """A tiny model of a kind that is no family."""
    tokenizer, size = bert_tokenizer(), {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = transformers.ErnieConfig(
        vocab_size=tokenizer.get_vocab_size(), intermediate_size=48, max_position_embeddings=40, **size
    )
    model = transformers.ErnieForMaskedLM(config)
    for i, parameter in enumerate(model.parameters()):
        step = torch.arange(parameter.numel(), dtype=torch.float64) + 1000.37 * i
        parameter.data += 0.1 * torch.sin(step * step * 0.7310).reshape(parameter.shape).float()
    return save_folder(tmp_path / "model", model.eval(), tokenizer)


@pytest.fixture
def one_more_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Family]]:
    """The registry as it is with one more file, for one test."""
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "ernie.py").write_text(ADDED, encoding="utf-8")
    look_also_in(tmp_path / "more", families, monkeypatch)
    try:
        found = schemes_of(families.__name__, Family)
        monkeypatch.setitem(FAMILIES, "ernie", found["ernie"])
        yield found
    finally:
        sys.modules.pop(f"{families.__name__}.ernie", None)


def test_that_a_kind_which_is_no_family_is_refused_three_times(ernie: Path) -> None:
    model = load(ernie, device="cpu")
    off = Gates.of(dict.fromkeys(model.sites[0].heads[:2], 0.0))
    for tried in (lambda: logit_lens(model, TEXT), lambda: prune(model.network, off), lambda: adopt(ernie)):
        with pytest.raises(UserError, match="ernie"):
            tried()
    assert not output_matrices(model)


def test_that_with_one_more_file_lens_pruning_and_fine_tuning_know_it(
    ernie: Path, one_more_file: dict[str, Family], tmp_path: Path
) -> None:
    assert set(one_more_file) == {*FAMILIES}
    assert last_norms()["ernie-like"] == ""
    model = load(ernie, device="cpu")
    logits = model.trace(TEXT).logits
    lens = logit_lens(model, TEXT)
    assert [row[0].token.id for row in lens.candidates[-1]] == logits.argmax(axis=-1).tolist()
    assert lens.kl_nats[-1].max() < 1e-6
    off = Gates.of({site.heads[h]: 0.0 for site in model.sites for h in (1, 2)})
    report = prune(model.network, off, model.encode(TEXT), has_speed=False).save(tmp_path / "smaller")
    assert report.proof.is_good
    assert report.opens_in.startswith("AttnScope only")
    smaller = load(tmp_path / "smaller", device="cpu")
    assert [site.n_heads for site in smaller.sites] == [2, 2]
    np.testing.assert_allclose(smaller.trace(TEXT).logits, model.trace(TEXT, gates=off).logits, atol=1e-5)
    ids = torch.tensor([[5, 9, 7, 12]])
    with torch.no_grad():
        ours, theirs = adopt(ernie).module.eval()(ids), model.network.module(input_ids=ids).logits
    torch.testing.assert_close(ours, theirs, rtol=0, atol=3e-5)


def test_that_families_whose_heads_can_go_have_titles_and_an_order_of_their_own() -> None:
    prunable = [family for family in FAMILIES.values() if isinstance(family, PrunableFamily)]
    assert [family.title for family in prunable] == [
        *("BERT", "DistilBERT", "ViT", "GPT-2", "Llama", "T5", "BART"),
    ]
    assert len({family.title for family in FAMILIES.values()}) == len(FAMILIES)


def test_that_no_kind_of_model_is_in_two_families() -> None:
    kinds = [kind for family in FAMILIES.values() for kind in (family.name, *family.alike)]
    assert len(set(kinds)) == len(kinds)
    library = transformers.models.auto.configuration_auto.CONFIG_MAPPING
    assert not [kind for kind in kinds if kind not in library]
