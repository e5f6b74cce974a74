"""The demo models do what their cards say, measured again from the stored files."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from references import repeated_random_ids

import attnscope as at
from attnscope.analysis import (
    AlignedPair,
    bleu,
    everyday_pairs,
    measure_alignment,
    measure_corpus,
    repeated_rows,
)
from attnscope.files import check_manifest
from attnscope.models import Model, demo_folder, demo_models, load
from attnscope.models.writing import translate_texts
from attnscope.records import AlignmentTable, HeadTable, WriteSettings, with_interval
from attnscope.text import Example
from attnscope.text.tasks import make_task
from attnscope.training import word_ids

NAMES = ("english-french", "grammar", "shakespeare-masked", "stories", "stories-masked")
_MOST_BYTES, _MOST_OF_ALL = 16_000_000, 60_000_000


@pytest.fixture(scope="module")
def causal() -> Model:
    return load("stories", "cpu")


@pytest.fixture(scope="module")
def translator() -> Model:
    return load("grammar", "cpu")


def pair_of(example: Example) -> AlignedPair:
    return AlignedPair(source=example.source, target=example.target or "", sure=frozenset(example.links))


def held_out(n: int) -> list[Example]:
    return make_task("english-french").examples(n, seed=99, held_out=True)


@pytest.mark.parametrize("name", NAMES)
def test_that_a_demo_model_is_small_whole_and_tells_how_it_was_made(name: str) -> None:
    folder = demo_folder() / name
    check_manifest(folder)
    assert sum(file.stat().st_size for file in folder.iterdir()) < _MOST_BYTES
    card = (folder / "card.md").read_text(encoding="utf-8")
    for part in (f"attnscope train {name} ", "Seed ", "processor minutes", "Validation loss", "licence"):
        assert part in card
    for private in ("/work", "/tmp", "/home", "/root"):
        assert private not in card + (folder / "config.json").read_text(encoding="utf-8")


def test_that_the_demo_models_come_with_the_program_and_stay_small_together() -> None:
    assert set(demo_models()) >= set(NAMES)
    files = [file for file in demo_folder().rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) < _MOST_OF_ALL


def test_that_a_notice_in_the_wheel_says_what_every_demo_model_learned_from() -> None:
    root = Path(__file__).parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "NOTICE" in project["license-files"]
    notice = (root / "NOTICE").read_text(encoding="utf-8")
    named = {name for line in notice.splitlines() if line[:1].islower() for name in line.split(", ")}
    assert named >= set(NAMES)
    for licence in ("CC BY 2.0 FR", "CDLA-Sharing-1.0", "MIT licence", "public domain"):
        assert licence in notice


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_that_the_attention_of_a_demo_model_can_be_believed(name: str) -> None:
    model = load(name, "cpu")
    sample = model.info.samples[0]
    assert model.trace(sample.text, sample.target).check().is_good


def test_that_the_causal_model_has_an_induction_head_and_a_previous_token_head(causal: Model) -> None:
    *_, table = measure_corpus(causal, repeated_rows(causal))
    assert isinstance(table, HeadTable)
    assert np.nanmax(table.column("stripe")) >= 0.6
    assert np.nanmax(table.column("previous")) >= 0.6


def test_that_the_heads_that_the_readme_names_do_on_random_pieces_what_it_says(causal: Model) -> None:
    *_, table = measure_corpus(causal, repeated_rows(causal))
    assert isinstance(table, HeadTable)
    readme = " ".join(Path(__file__).parents[2].joinpath("README.md").read_text(encoding="utf-8").split())
    for measure, said in (
        ("previous", r"head (L\dH\d) looks mostly at the piece just before"),
        ("stripe", r"the induction head, (L\dH\d), looks at the word that followed"),
    ):
        named = re.search(said, readme)
        assert named is not None
        labels = [head.label for head in table.heads]
        assert table.column(measure)[labels.index(named[1])] >= 0.6


def test_that_stories_reads_any_text_and_goes_on_with_what_was_said(causal: Model) -> None:
    assert causal.encode("你好 😀 Ñandú \x01").source.n_unknown == 0
    said = '"Where is my ball?" asked Tom.\n"It is under the tree," said Mia.\n"Where is my'
    assert causal.predict(said).predictions[-1].candidates[0].token.piece.strip() == "ball"


def test_that_heads_page_card_and_readme_tell_the_same_induction_score(causal: Model) -> None:
    card = (demo_folder() / "stories" / "card.md").read_text(encoding="utf-8")
    told = re.search(r"Induction score .*?: (L\dH\d) ", card)
    assert told is not None
    table = at.measure_texts(causal, "the king").table
    head = next(head for head in table.heads if head.label == told[1])
    estimate = table.estimate(head, "stripe")
    assert f"{head.label} {with_interval(estimate.value, estimate.low, estimate.high, 3)}" in card
    assert estimate.basis in card
    readme = Path(__file__).parents[2].joinpath("README.md").read_text(encoding="utf-8")
    assert f"induction head {head.label} {estimate.text}" in readme
    nats = re.search(r"- ([\d.]+ \([\d.]+–[\d.]+\) nats a character)", card)
    assert nats is not None
    assert nats[1] in readme


@pytest.mark.slow
def test_that_the_alignment_of_the_card_holds_for_other_sentences(translator: Model) -> None:
    card = (demo_folder() / "grammar" / "card.md").read_text(encoding="utf-8")
    readme = Path(__file__).parents[2].joinpath("README.md").read_text(encoding="utf-8")
    told = re.search(r"best layer (L\d mean) ([\d.]+) \(([\d.]+)–([\d.]+)\); .* over 3,000 pairs", card)
    assert told is not None
    value, low, high = (float(number) for number in told.groups()[1:])
    assert low < value < high < low + 0.01
    assert f"{value:.3f}" in readme
    table = list(measure_alignment(translator, [pair_of(x) for x in held_out(300)]))[-1]
    assert isinstance(table, AlignmentTable)
    layer = len(table.heads) + int(np.nanargmin(table.error_rate[len(table.heads) :]))
    assert table.label(layer) == told.group(1)
    assert table.low[layer] < high
    assert low < table.high[layer]


def test_that_the_causal_model_continues_random_words_it_saw_once(causal: Model) -> None:
    n_words, words = 25, word_ids(causal.own.vocabulary)
    rows = repeated_random_ids(words, n=8, n_tokens=2 * n_words, seed=2017, held_out=True).tolist()
    texts = [causal.own.vocabulary.decode(row[: n_words + 3]) for row in rows]
    expected = [causal.own.vocabulary.decode(row[n_words + 3 : n_words + 7]) for row in rows]
    right = [causal.generate(t, max_tokens=4) == e for t, e in zip(texts, expected, strict=True)]
    assert sum(right) >= 6


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("shakespeare-masked", "My <mask>, the king is dead."),
        ("stories-masked", "Please close the <mask>, it is cold in here."),
    ],
)
def test_that_the_masked_models_guess_hidden_words_better_than_chance(name: str, text: str) -> None:
    model = load(name, "cpu")
    (prediction,) = model.predict(text, top=5).predictions
    assert prediction.candidates[0].probability > 20 / model.info.vocab_size


_ASKED = {
    "I put <mask> fork down on the table.": "the",
    "The woman walked across the street, checking for traffic over <mask> shoulder.": "her",
    "Iroh went into the kitchen to make some tea. Standing next to Iroh, Zuko thought about his future."
    " Zuko left the <mask>.": "kitchen",
    "He opened the <mask> and went inside.": "door",
    "The king was very sad because the <mask> had lost his crown.": "king",
}


@pytest.mark.parametrize(("text", "answer"), _ASKED.items(), ids=_ASKED.values())
def test_that_stories_masked_answers_as_its_card_says(text: str, answer: str) -> None:
    (prediction,) = load("stories-masked", "cpu").predict(text, top=5).predictions
    assert prediction.candidates[0].token.piece == answer


def test_that_stories_masked_has_a_head_for_either_neighbour() -> None:
    model = load("stories-masked", "cpu")
    trace = model.trace("Our neighbour has painted the fence behind his garden in a bright green.")
    for (layer, head), offset in (((1, 7), -1), ((3, 4), 1)):
        weights = trace.weights(("encoder", layer), head)
        assert np.diagonal(weights, offset).mean() > 0.8


@pytest.mark.slow
def test_that_98_of_100_held_out_sentences_are_translated_word_for_word(translator: Model) -> None:
    examples = held_out(200)
    tokenizer = translator.own.vocabulary
    targets = [tokenizer.decode(tokenizer.encode_ids(one.target or "")) for one in examples]
    written = [translator.generate(one.source) for one in examples]
    wrong = [pair for pair in zip(targets, written, strict=True) if pair[0] != pair[1]]
    assert len(wrong) <= 0.02 * len(examples), wrong


@pytest.mark.slow
def test_that_cross_attention_aligns_words_with_an_error_rate_of_at_most_5_percent(translator: Model) -> None:
    table = list(measure_alignment(translator, [pair_of(one) for one in held_out(100)]))[-1]
    assert isinstance(table, AlignmentTable)
    assert np.nanmin(table.error_rate) <= 0.05


def test_that_demo_models_are_model_folders_and_nothing_else() -> None:
    for name in NAMES:
        files = {path.name for path in Path(demo_folder() / name).iterdir()}
        parts = {"card.md", "config.json", "manifest.json", "model.safetensors", "tokenizer.json"}
        assert files == {"about.toml", *parts}


@pytest.fixture(scope="module")
def everyday() -> list[AlignedPair]:
    return list(everyday_pairs())


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "Does the café open at 8 o'clock?",
        "你好，世界",
        "שלום",
        "мир 😀👩‍👩‍👧",
        "a\u0301\u200d\x01",
        "ﷺ½№",
        " \t\n x",
    ],
)
def test_that_no_text_in_any_script_is_unknown_to_the_translator(text: str) -> None:
    model = load("english-french", "cpu")
    tokens = model.encode(text).source
    assert tokens.n_unknown == 0
    assert model.trace(text, "Bonjour").check().is_good


@pytest.mark.slow
def test_that_the_translator_opens_on_a_head_that_aligns_everyday_words(everyday: list[AlignedPair]) -> None:
    model = load("english-french", "cpu")
    assert model.info.guided is not None
    table = list(measure_alignment(model, everyday))[-1]
    assert isinstance(table, AlignmentTable)
    rate = table.error_rate[table.heads.index(model.info.guided)]
    assert rate == np.nanmin(table.error_rate)
    assert rate <= 0.15  # the diagonal alone has 0.377
    assert f"{rate:.3f} (" in model.own.card.text


def test_that_without_the_aligning_head_big_goes_with_the_dog_as_the_tour_says() -> None:
    model = at.load("english-french")
    first = "She bought a red car and a little black dog."
    assert model.generate(first) == "Elle a acheté une voiture rouge et un petit chien noir."
    text = "She has a white dog and a big black cat."
    gates = model.gates()
    gates["cross", 1, 0] = 0.0
    outputs = model.compare(text, gates=gates)
    assert outputs.before.generated == "Elle a un chien blanc et un gros chat noir."
    assert "un grand chien blanc" in outputs.after.generated


@pytest.mark.slow
def test_that_everyday_sentences_are_translated_as_well_as_the_card_says(everyday: list[AlignedPair]) -> None:
    model = load("english-french", "cpu")
    english, french = zip(*(pair.texts for pair in everyday), strict=True)
    settings = WriteSettings(mode="greedy", max_tokens=60)
    written = {one.index: one.text for one in translate_texts(model, english, settings)}
    score = bleu([written[index] for index in range(len(english))], french)
    told = re.search(r"BLEU ([\d.]+) \(.*60 everyday sentences", model.own.card.text)
    assert told is not None
    assert abs(score.value - float(told.group(1))) < 0.3
