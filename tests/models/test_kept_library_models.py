"""The small models of the library that come with the program: whole, small, on their own texts."""

import re
import sys

import pytest

from attnscope import kept_models
from attnscope.analysis import look_inside
from attnscope.errors import LoadError, UserError
from attnscope.files import check_manifest
from attnscope.kept_models import kept_model, kept_names
from attnscope.models import demo_folder, demo_models, load
from attnscope.records import Sample

NAMES = [name for name in kept_names() if kept_model(name).extra]
_MOST_BYTES, _MOST_OF_ALL, _FEWEST_TOKENS = 600_000, 3_000_000, 50


def test_that_five_models_of_the_library_are_kept_and_come_last() -> None:
    assert set(NAMES) >= {"bigbird", "funnel", "led", "longformer", "reformer"}
    assert demo_models()[-len(NAMES) :] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_that_a_kept_model_of_the_library_is_small_whole_and_tells_how_it_was_made(name: str) -> None:
    folder, about = demo_folder() / name, kept_model(name)
    check_manifest(folder)
    assert sum(file.stat().st_size for file in folder.iterdir()) < _MOST_BYTES
    card = (folder / "card.md").read_text(encoding="utf-8")
    for part in (
        f"keep_library_models.py {name}",
        "Seed ",
        "processor minutes",
        "Wilson interval",
        "licence",
    ):
        assert part in card
    for private in ("/work", "/tmp", "/home", "/root"):
        assert private not in card + (folder / "config.json").read_text(encoding="utf-8")
    assert about.shows.endswith(".")
    assert about.search
    assert all(sample.hint for sample in about.samples)


def test_that_the_kept_models_of_the_library_are_small_together() -> None:
    files = [file for name in NAMES for file in (demo_folder() / name).iterdir()]
    assert sum(file.stat().st_size for file in files) < _MOST_OF_ALL


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_that_a_kept_model_of_the_library_opens_on_its_own_long_text_and_head(name: str) -> None:
    pytest.importorskip("transformers")
    about, model = kept_model(name), load(name, "cpu")
    assert (model.info.name, model.info.samples) == (name, about.samples)
    assert model.info.guided is not None
    assert f"{model.info.guided.stack}:{model.info.guided.label}" == about.head
    sample = model.info.samples[0]
    source = model.encode(sample.text).source
    assert len(source) >= _FEWEST_TOKENS
    assert source.n_unknown == 0
    assert model.trace(sample.text, sample.target).check().is_good


_SAID = {"longformer": "yellow", "bigbird": "green", "reformer": "green", "funnel": "yellow"}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "answer"), _SAID.items(), ids=_SAID)
def test_that_a_kept_model_has_learned_what_its_card_says(name: str, answer: str) -> None:
    pytest.importorskip("transformers")
    model = load(name, "cpu")
    for prediction in model.predict(model.info.samples[0].text).predictions:
        assert prediction.candidates[0].token.piece == answer
        assert prediction.candidates[0].probability > 0.9


@pytest.mark.slow
def test_that_the_kept_led_writes_the_summary_of_its_sample() -> None:
    pytest.importorskip("transformers")
    model = load("led", "cpu")
    sample = model.info.samples[0]
    assert model.generate(sample.text) == sample.target


@pytest.mark.slow
def test_that_the_kept_longformer_finds_the_lamp_wherever_it_is_said() -> None:
    pytest.importorskip("transformers")
    model = load("longformer", "cpu")
    for sample in model.info.samples:
        trace = model.trace(sample.text)
        weights = trace.weights(("encoder", 1), 0)
        at = 1 + sample.text.split().index("lamp") + 2
        assert weights[0, at] > 0.9


def test_that_without_the_library_a_kept_model_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_models.importlib.util, "find_spec", lambda _: None)
    assert [bool(kept_model(name).lacks) for name in demo_models()] == [
        name in NAMES for name in demo_models()
    ]
    assert kept_model("led").lacks == "needs transformers, which is not installed (the extra hf)"


@pytest.mark.parametrize("name", NAMES)
def test_that_opening_a_kept_model_without_the_library_says_what_to_do(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for loaded in [module for module in sys.modules if module.split(".")[0] == "transformers"]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(LoadError) as caught:
        load(name, "cpu")
    assert caught.value.kind == "library"
    assert re.search(r"transformers is not installed .*pip install 'attnscope\[hf\]'", str(caught.value))


def test_that_adding_a_kept_model_is_adding_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setattr(kept_models, "kept_models_folder", lambda: tmp_path)
    kept_models.kept_model.cache_clear()
    for name in ("zebra", "apple", "mute"):
        (tmp_path / name).mkdir()
    (tmp_path / "apple" / "about.toml").write_text('extra = "hf"\n[[sample]]\ntext = "a b"\nhint = "b"\n')
    (tmp_path / "zebra" / "about.toml").write_text('shows = "Stripes."\n')
    assert kept_names() == ["mute", "zebra", "apple"]
    assert kept_model("apple").samples == (Sample(text="a b", hint="b"),)
    assert kept_models.kept_model_at(tmp_path / "zebra").shows == "Stripes."
    assert kept_models.kept_model_at(tmp_path.parent / "zebra").shows == ""
    for wrong in ("shows = 3\n", "other = 'x'\n", "shows = \n", "[[sample]]\nsaid = 'x'\n"):
        (tmp_path / "mute" / "about.toml").write_text(wrong)
        kept_models.kept_model.cache_clear()
        with pytest.raises(LoadError, match="cannot be read"):
            kept_model("mute")
    kept_models.kept_model.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_that_a_kept_model_of_the_library_says_how_few_words_it_knows_before_it_is_opened(name: str) -> None:
    pytest.importorskip("transformers")
    words, _ = load(name, "cpu").info.words
    assert f"It knows {len(words)} words." in kept_model(name).shows
    assert {word for word in kept_model(name).samples[0].text.split() if word[0] != "<"} <= {*words}


@pytest.mark.slow
def test_that_the_kept_grammar_knows_as_many_words_as_it_is_said_to_translate() -> None:
    assert f"Translates {len(load('grammar', 'cpu').info.words[0])} words" in kept_model("grammar").shows


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_that_no_head_of_a_kept_model_is_stepped_through(name: str) -> None:
    """Their attention is computed in code of their own, which hands over weights alone."""
    pytest.importorskip("transformers")
    model = load(name, "cpu")
    sample, head = model.info.samples[0], model.sites[0].heads[0]
    assert "only the weights are known" in model.info.no_inside
    trace = model.trace_site(head.site_key, sample.text, sample.target)
    with pytest.raises(UserError, match="only the weights are known"):
        look_inside(trace, head, 1)
