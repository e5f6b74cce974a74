"""A tokenizer kind is one file: recipes, commands, Python, labs, help and export have it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from attnscope.schemes.tokenizers import KINDS
from attnscope.text import tokenizer_kind, train_tokenizer

TEXTS = ("the cat sat on the mat", "a dog and a bird saw the cat") * 4
ADDED = """
from attnscope.schemes.tokenizers.kind import Library
from attnscope.schemes.tokenizers.words import Words


class Spaced(Words):
    name, title, order = "spaced", "spaced words", 900
    words, source = "what stands between two spaces", "this test"

    def untrained(self) -> Library:
        from tokenizers import Tokenizer, models, pre_tokenizers

        library = Tokenizer(models.WordLevel(unk_token="<unk>"))
        library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        return library

    def is_kind_of(self, library: Library) -> bool:
        return type(library.pre_tokenizer).__name__ == "WhitespaceSplit"
"""
USED = """
import json, sys
from importlib.util import find_spec, module_from_spec

folder, text, run = sys.argv[1:]
spec = find_spec("attnscope.schemes.tokenizers")  # the package, with one more file in it
spec.submodule_search_locations.append(folder)
package = sys.modules[spec.name] = module_from_spec(spec)
spec.loader.exec_module(package)

import attnscope
from attnscope.cli.main import main
from attnscope.paths import resources_folder
from attnscope.records.tokenizers import KINDS, CompareTokenizers
from attnscope.viewmodels.help_pages import read_help

sets = ("tokenizer.kind=spaced", "data.path=" + text, "model.d_model=8", "model.n_heads=1", "model.d_ff=8",
        "model.n_layers=1", "training.n_steps=1", "training.batch_size=1", "training.evaluate_every=1")
given = [word for change in sets for word in ("--set", change)]
trained = main(["--device", "cpu", "train", run + ".toml", "--out", run, *given])
shown = main(["info", run, "--device", "cpu"])
model = attnscope.load(run)
drawn = attnscope.figure(model.trace("cat's mat."), "head").save(run + "/head.csv")
(recipes,) = (page for page in read_help(resources_folder() / "help") if page.name == "recipes")
wrong = main(["train", run + ".toml", "--out", run + "2", "--set", "tokenizer.kind=spared"])
print()
print(json.dumps({
    "done": [trained, shown, wrong],
    "kind": model.info.tokenizer,
    "words": model.info.words[0],
    "pieces": [token.piece for token in model.trace("cat's mat.").tokens(0)[0]],
    "window": KINDS["spaced"],
    "lab": list(CompareTokenizers.__dataclass_fields__["kinds"].default),
    "help": [line for line in recipes.text.splitlines() if "`spaced`" in line],
    "exported": drawn.read_text(),
}))
"""
RECIPE = """
[model]
max_tokens = 16

[data]
kind = "text"
path = ""

[objective]
kind = "causal"
"""


@pytest.mark.parametrize("name", KINDS)
def test_that_a_tokenizer_of_every_kind_is_known_as_that_kind(name: str) -> None:
    tokenizer = train_tokenizer(name, TEXTS, vocab_size=300)
    assert tokenizer_kind(tokenizer.entries.library) == name


def test_that_kinds_have_titles_of_their_own_and_an_order() -> None:
    assert [*KINDS][:6] == ["words", "characters", "bpe", "wordpiece", "unigram", "byte-bpe"]
    titles, orders = ({getattr(kind, part) for kind in KINDS.values()} for part in ("title", "order"))
    assert len(titles) == len(orders) == len(KINDS)


@pytest.mark.slow
def test_that_one_more_file_is_one_more_kind(tmp_path: Path) -> None:
    (tmp_path / "schemes").mkdir()
    (tmp_path / "schemes/spaced.py").write_text(ADDED, encoding="utf-8")
    (tmp_path / "text.txt").write_text("the cat's mat. the dog's mat.\n" * 60, encoding="utf-8")
    (tmp_path / "run.toml").write_text(RECIPE, encoding="utf-8")
    places = [str(tmp_path / name) for name in ("schemes", "text.txt", "run")]
    done = subprocess.run(
        [sys.executable, "-c", USED, *places],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told, found = done.stdout, json.loads(done.stdout.splitlines()[-1])
    assert found["done"] == [0, 0, 2]
    assert "one of " + ", ".join(f'"{name}"' for name in [*KINDS, "spaced"]) in done.stderr
    assert found["kind"] == "spaced"
    assert {"the", "cat's", "mat."} <= set(found["words"])
    assert "(spaced)" in told
    assert "cat's" in found["pieces"]
    assert found["window"] == "spaced words"
    assert found["lab"] == [*KINDS, "spaced"]
    assert found["help"] == ["- `spaced`: what stands between two spaces (this test), `vocab_size`"]
    assert "cat's" in found["exported"]
