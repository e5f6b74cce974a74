"""The published all-MiniLM-L6-v2, where its package is installed: its weights, its heads, its samples."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from attnscope import measure_texts
from attnscope.analysis import find_roles
from attnscope.hub import shelf
from attnscope.hub.shelf import shelf_entries
from attnscope.models import Model, load
from attnscope.records import HeadRef

transformers = pytest.importorskip("transformers")
ENTRY = next(entry for entry in shelf_entries() if entry.short == "minilm")
WEIGHTS = shelf.package_weights(ENTRY)
pytestmark = pytest.mark.skipif(WEIGHTS is None, reason="the extra minilm is not installed")
TEXTS = [
    "A true friend would not say such a thing.",
    "Are you sure you're not imagining things?",
    "He opened the heavy door with an old key.",
    "She gave the book to her brother, and he read it twice.",
    "My name is John and I study computer science at the university.",
    "The keys to the old cabinet were lost.",
]


@pytest.fixture(scope="module")
def model() -> Model:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shelf, "shelf_entries", shelf_entries)
        return load("minilm", "cpu")


@pytest.fixture(scope="module")
def eager() -> torch.nn.Module:
    assert WEIGHTS is not None
    library = transformers.AutoModel.from_pretrained(
        WEIGHTS.parent, attn_implementation="eager", dtype=torch.float64
    )
    return library.eval()  # type: ignore[no-any-return]


def maps(eager: torch.nn.Module, model: Model, text: str) -> np.ndarray:
    """The weights of the library itself, eager and in float64: [layers · heads, n, n]."""
    ids = torch.tensor([model.network.encode(text).source.ids])
    with torch.no_grad():
        found = torch.cat(eager(input_ids=ids, output_attentions=True).attentions)
    return found.flatten(0, 1).numpy()


@pytest.mark.slow
def test_that_it_is_the_published_model(model: Model) -> None:
    info = model.info
    assert info.sha256 == ENTRY.sha256
    assert (info.n_parameters, info.vocab_size, info.max_tokens) == (22_713_216, 30_522, 512)
    assert [(site.stack, site.n_heads) for site in model.sites] == [("encoder", 12)] * 6
    assert info.licence == "apache-2.0"


def test_that_sentences_are_as_alike_as_its_makers_publish(eager: torch.nn.Module, model: Model) -> None:
    said = ("The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium.")
    means = []
    for text in said:
        with torch.no_grad():
            states = eager(input_ids=torch.tensor([model.network.encode(text).source.ids])).last_hidden_state
        means.append(torch.nn.functional.normalize(states[0].mean(dim=0), dim=0))
    alike = torch.stack(means) @ torch.stack(means).T
    expected = [[1.0, 0.6660, 0.1046], [0.6660, 1.0, 0.1411], [0.1046, 0.1411, 1.0]]  # sbert.net, usage
    np.testing.assert_allclose(alike.numpy(), expected, atol=5e-5)


@pytest.mark.slow
def test_that_measures_and_roles_are_those_of_the_library_by_hand(
    eager: torch.nn.Module, model: Model
) -> None:
    table = measure_texts(model, TEXTS).table
    whole = [maps(eager, model, text) for text in TEXTS]
    for name, share in (
        ("first", lambda a: a[:, 1:-1, 0].mean(1)),
        ("separator", lambda a: a[:, 1:-1, -1].mean(1)),
        ("previous", lambda a: np.mean([a[:, i, i - 1] for i in range(1, a.shape[1] - 1)], axis=0)),
        ("diagonal", lambda a: np.mean([a[:, i, i] for i in range(1, a.shape[1] - 1)], axis=0)),
    ):
        slow = np.mean([share(a) for a in whole], axis=0)
        np.testing.assert_allclose(table.column(name), slow, atol=1e-5, err_msg=name)
    roles = {head.label: find_roles(head, table) for head in table.heads}
    assert roles["L0H2"][0].sentence.startswith("attends to the previous token: 1.00 of its weight")
    assert re.match(r"attends to the next token: 0\.[67]\d of its weight", roles["L1H8"][0].sentence)


def test_that_the_samples_show_what_their_hints_say(model: Model) -> None:
    n_said = 0
    for sample in model.info.samples:
        pieces = [token.piece for token in model.trace(sample.text).source.tokens]
        for head, query, key, value in re.findall(
            r"(L\dH\d+) looks from .*?'(\w+)' at '(\w+)' \((0\.\d\d)\)", sample.hint
        ):
            ref = HeadRef(stack="encoder", layer=int(head[1]), head=int(head[3:]))
            weights = model.trace(sample.text).weights(ref.site_key, ref.head)
            found = float(weights[pieces.index(query), pieces.index(key)])
            assert found == pytest.approx(float(value), abs=0.0051), (sample.text, head)
            n_said += 1
    assert n_said == 5


def test_that_every_row_sums_to_one_and_the_head_of_pronouns_follows_them(model: Model) -> None:
    for adjective, least in (("tired", 0.6), ("wide", 0.2)):
        trace = model.trace(f"The animal didn't cross the street because it was too {adjective}.")
        assert trace.check().is_good
        pieces = [token.piece for token in trace.source.tokens]
        weights = trace.weights(("encoder", 3), 1)
        assert math.isclose(float(weights[3].sum()), 1.0, rel_tol=1e-5)
        assert weights[pieces.index("it"), pieces.index("animal")] > least


def test_that_nothing_of_the_package_is_run(model: Model) -> None:
    import sys

    assert ENTRY.package not in sys.modules
    assert Path(model.info.source).name == "model"
