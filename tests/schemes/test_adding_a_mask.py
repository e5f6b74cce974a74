"""A mask is one file: configurations, the network, the cost, tables and help have it."""

import re
import sys
from pathlib import Path

import pytest
from added_files import look_also_in
from tiny_models import SENTENCE, tiny_model

from attnscope.cli.main import main
from attnscope.errors import RecipeError
from attnscope.models import own_cost
from attnscope.nn import ModelConfig
from attnscope.schemes import masks, schemes_of
from attnscope.schemes.masks import MASKS, Mask
from attnscope.viewmodels import read_help

HELP = Path(__file__).parents[2] / "resources" / "help"
ADDED = """
from attnscope.schemes.masks.mask import Mask


class EveryThird(Mask):
    name, title, order = "third", "every third", 900
    words = "every third key of its neighbourhood, and the first token"
    choices = ("window",)
    is_sparse = True

    def faults(self, config):
        if config.window < 1:
            yield "window", "at least 1 beside the mask third"

    def step(self, config):
        return 3

    def n_global(self, config):
        return 1
"""
SIZES = {"form": "encoder", "vocab_size": 20, "d_model": 8, "n_layers": 1, "n_heads": 2, "d_ff": 8}


@pytest.fixture(autouse=True)
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "third.py").write_text(ADDED, encoding="utf-8")
    look_also_in(tmp_path, masks, monkeypatch)
    try:
        found = schemes_of("attnscope.schemes.masks", Mask)
    finally:
        sys.modules.pop("attnscope.schemes.masks.third", None)
    assert list(found) == [*MASKS, "third"]
    monkeypatch.setitem(MASKS, "third", found["third"])


def test_that_a_configuration_knows_it_and_what_it_needs() -> None:
    assert ModelConfig.from_dict({**SIZES, "mask": "third"}).mask == "third"
    with pytest.raises(RecipeError) as caught:
        ModelConfig.from_dict({**SIZES, "mask": "thirds"})
    assert caught.value.expected.endswith(", ".join(MASKS))
    with pytest.raises(RecipeError) as caught:
        ModelConfig.from_dict({**SIZES, "mask": "third", "window": 0})
    assert caught.value.expected == "at least 1 beside the mask third"


def test_that_a_query_sees_what_its_file_says() -> None:
    model = tiny_model("encoder", n_layers=1, mask="third", window=1)
    weights = model.trace(SENTENCE).weights(("encoder", 0), 0)
    n = len(weights)
    for i in range(n):
        for j in range(n):
            is_seen = abs(i - j) in (0, 3) or 0 in (i, j)
            assert (weights[i, j] > 0) == is_seen, (i, j)


def test_that_cost_tables_and_help_know_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole, sparse = (
        ModelConfig.from_dict({**SIZES, "mask": name, "window": 1}) for name in ("full", "third")
    )
    n_cells = sum(abs(i - j) in (0, 3) or 0 in (i, j) for i in range(12) for j in range(12))
    assert own_cost(whole, 12).forward - own_cost(sparse, 12).forward == 4 * 8 * (144 - n_cells)
    tiny_model("encoder", mask="third", window=1).save(tmp_path / "m")
    assert main(["info", str(tmp_path / "m")]) == 0
    told = capsys.readouterr().out
    assert re.search(r"\bmask +third$", told, re.MULTILINE)
    assert re.search(r"\bwindow +1$", told, re.MULTILINE)
    assert "global_tokens" not in told
    (recipes,) = (page for page in read_help(HELP) if page.name == "recipes")
    assert "- `third`: every third key of its neighbourhood, and the first token, `window`" in recipes.text
