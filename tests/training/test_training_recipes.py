"""Every recipe that comes with the program makes two tiny steps, and explains itself."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from attnscope.models import load, picture_of_tokens
from attnscope.paths import resources_folder
from attnscope.records import Evaluated, Finished, Step, labelled_head
from attnscope.text.tasks import make_task
from attnscope.trace import load_traces
from attnscope.training import parse_recipe, read_inspections, read_run, train
from attnscope.viewmodels.training import watched_head, words_of_recipe

RECIPES = sorted((resources_folder() / "recipes").glob("*.toml"), key=lambda path: path.stem)
NAMES = {
    "addition",
    "brackets",
    "copy",
    "grammar",
    "english-french",
    "english-german",
    "induction",
    "induction-linear",
    "reverse",
    "reverse-additive",
    "shakespeare",
    "shakespeare-masked",
    "sort",
    "stories",
    "stories-masked",
}


def test_that_every_promised_recipe_is_there() -> None:
    assert {path.stem for path in RECIPES} >= NAMES


@pytest.mark.slow
@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_that_a_recipe_makes_two_tiny_steps(path: Path, text_file: Path, tmp_path: Path) -> None:
    changes = {
        "training.n_steps": "2",
        "training.batch_size": "2",
        "training.evaluate_every": "2",
        "training.evaluation_batches": "1",
        "training.save_every": "2",
        "schedule.warmup_steps": "1",
    }
    text = path.read_text(encoding="utf-8")
    if "batch_warmup_steps" in text:
        changes |= {"schedule.batch_start": "1"}
    if 'kind = "pairs"' in text:
        pairs = tmp_path / "pairs.tsv"
        lines = (f"{n} red cats see a dog\t{n} rote Katzen sehen einen Hund\n" for n in range(40))
        pairs.write_text("".join(lines), encoding="utf-8")
        changes |= {"data.path": str(pairs), "tokenizer.vocab_size": "300", "data.validation_share": "0.2"}
    elif 'kind = "text"' in text:
        changes |= {"data.path": str(text_file), "tokenizer.vocab_size": "300"}
    elif 'kind = "tagged"' in text:
        tagged = tmp_path / "tagged.txt"
        lines = (f"the/DET cat/NOUN sleeps/VERB {n}/NUM\n" for n in range(40))
        tagged.write_text("".join(lines), encoding="utf-8")
        changes |= {"data.path": str(tagged), "tokenizer.vocab_size": "300"}
    else:
        changes |= {"data.n_examples": "20"}
    events = list(train(path, tmp_path / "run", "cpu", changes))
    assert sum(isinstance(event, Step) for event in events) == 2
    assert sum(isinstance(event, Evaluated) for event in events) == 1
    assert isinstance(events[-1], Finished)
    assert load(tmp_path / "run").info.name == path.stem


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_that_a_recipe_says_what_it_is_and_what_to_watch(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# ")
    assert any(line.startswith("# Watch: ") for line in lines)
    assert "[[watch]]" in lines


def test_that_the_points_of_largest_inducing_choose_what_they_read() -> None:
    """Where even weights would give each of twelve tokens 0.08, over sets that no run has seen."""
    model, weights = load("largest-inducing"), []
    for example in make_task("largest").examples(50, seed=11, held_out=True):
        trace = model.trace(example.source)
        weights.append(trace.weights(("read-in", 0), 0)[:, 1 + example.places[0]].mean())
    assert np.mean(weights) > 0.5


def test_that_the_kept_run_of_reverse_deep_shows_gradients_of_six_layers_that_a_warm_up_keeps_alike() -> None:
    first = read_inspections(resources_folder() / "films" / "reverse-deep")[0]
    named = dict(zip(first.layers, first.gradient_norms, strict=True))
    norms = [norm for name, norm in named.items() if name.startswith("encoder")]
    assert (first.step, len(norms)) == (20, 6)
    assert max(norms) / min(norms) < 2.0
    kept = read_run(resources_folder() / "films" / "reverse-deep")
    assert [event.accuracy for event in kept.events if isinstance(event, Evaluated)][1:] == [1.0] * 3


@pytest.mark.parametrize(
    "name", ["tagging", "questions", "set-anomaly", "set-anomaly-inducing", "reverse-labels", "nested-lists"]
)
def test_that_kept_runs_of_labels_have_one_for_every_token_at_every_step(name: str) -> None:
    for _, path in read_run(resources_folder() / "films" / name).probes:
        trace = load_traces(path)[0]
        assert trace.said is not None
        assert len(trace.said.predictions) == len(trace.source.text.split())


CLASSIFIERS = ["sentiment-pooling", "entailment", "reviews-hierarchical"]


@pytest.mark.parametrize("name", ["questions", "set-anomaly", "set-anomaly-inducing", "largest-inducing"])
def test_that_the_kept_run_of_a_model_that_points_is_of_its_recipe_and_nearly_always_right(name: str) -> None:
    resources = resources_folder()
    kept = read_run(resources / "films" / name)
    asked = parse_recipe((resources / "recipes" / f"{name}.toml").read_text(encoding="utf-8"))
    assert parse_recipe(kept.recipe) == asked
    assert kept.n_bad_lines == 0
    assert [event.accuracy for event in kept.events if isinstance(event, Evaluated)][-1] >= 0.99
    last = load_traces(kept.probes[-1][1])[0]
    pieces = [token.piece for token in last.source.tokens[1:-1]]
    assert pieces == asked.watch[0].text.split()


def test_that_the_kept_run_of_reverse_labels_is_of_its_recipe_and_ends_with_all_right() -> None:
    resources = resources_folder()
    kept = read_run(resources / "films" / "reverse-labels")
    asked = parse_recipe((resources / "recipes" / "reverse-labels.toml").read_text(encoding="utf-8"))
    assert parse_recipe(kept.recipe) == asked
    assert kept.n_bad_lines == 0
    assert [event.accuracy for event in kept.events if isinstance(event, Evaluated)][-1] == 1.0
    last = load_traces(kept.probes[-1][1])[0]
    weights = last.weights(("encoder", 0), 0)[1:-1, 1:-1]  # without <s> and </s>
    assert weights.argmax(axis=1).tolist() == list(range(15, -1, -1))


def test_that_the_kept_run_with_lamb_ends_with_all_right() -> None:
    kept = read_run(resources_folder() / "films" / "reverse-lamb")
    asked = parse_recipe(kept.recipe)
    assert (asked.optimizer.kind, asked.training.batch_size) == ("lamb", 1024)
    found = [event for event in kept.events if isinstance(event, Evaluated)]
    assert (found[-1].step, found[-1].accuracy) == (200, 1.0)
    assert min(event.step for event in found if (event.accuracy or 0) > 0.999) == 180


@pytest.mark.parametrize("name", sorted(path.name for path in (resources_folder() / "films").iterdir()))
def test_that_every_kept_run_is_of_its_recipe_and_whole(name: str) -> None:
    """Where a text of one's own was read, the recipe names no file; how often to save may differ."""
    resources = resources_folder()
    kept = read_run(resources / "films" / name)
    path = resources / "recipes" / f"{name}.toml"
    asked = parse_recipe(path.read_text(encoding="utf-8"), needs_data=False)
    made = parse_recipe(kept.recipe)
    alike = replace(made, training=replace(made.training, save_every=asked.training.save_every))
    assert replace(alike, data=replace(made.data, path=asked.data.path)) == asked
    assert made.data.path or made.data.kind != "text", "opening it would ask for the file"
    assert kept.n_bad_lines == 0
    assert kept.probes[-1][0] == asked.training.n_steps
    assert isinstance(kept.events[-1], Finished)
    right = [event.accuracy for event in kept.events if isinstance(event, Evaluated)]
    assert right[-1] >= max(right) - 0.02, "what is shown last is what was learned"


@pytest.mark.parametrize("name", sorted(path.name for path in (resources_folder() / "films").iterdir()))
def test_that_the_head_that_a_kept_run_opens_on_is_one_of_its_model(name: str) -> None:
    kept = read_run(resources_folder() / "films" / name)
    head = watched_head(kept.recipe)
    sites = load_traces(kept.probes[-1][1])[0].sites
    assert not head or labelled_head(head, sites) is not None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("induction-selective", "94 of 100 letters are predicted"),
        ("induction-retention", "97 of 100 letters are predicted"),
        ("induction-shared", "96 of 100 letters are predicted"),
        ("induction-convolution", "37 of 100 letters are predicted"),
        ("induction-memory", "99 % of what can be known is right"),
        ("nested-lists", "96.9 % of their labels are right"),
        ("pictures", "98 % of 512 pictures that it has never seen are right"),
        ("reverse-luong", "99.9 % of held-out letters are right"),
    ],
)
def test_that_a_recipe_says_the_accuracy_that_its_kept_run_ends_with(name: str, said: str) -> None:
    resources = resources_folder()
    recipe = (resources / "recipes" / f"{name}.toml").read_text(encoding="utf-8")
    assert said in words_of_recipe(recipe)
    kept = read_run(resources / "films" / name)
    right = [event.accuracy for event in kept.events if isinstance(event, Evaluated)][-1]
    number = said.split()[0]
    n_digits = len(number.partition(".")[2])
    assert f"{100 * right:.{n_digits}f}" == number


@pytest.mark.parametrize("name", ["shared", "retention", "selective", "reversible"])
def test_that_kept_runs_of_induction_learned_to_repeat_what_can_be_known(name: str) -> None:
    kept = read_run(resources_folder() / "films" / f"induction-{name}")
    assert [event.accuracy for event in kept.events if isinstance(event, Evaluated)][-1] >= 0.9


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_that_the_kept_run_of_a_classifier_is_of_its_recipe_and_is_nearly_always_right(name: str) -> None:
    resources = resources_folder()
    kept = read_run(resources / "films" / name)
    asked = parse_recipe((resources / "recipes" / f"{name}.toml").read_text(encoding="utf-8"))
    assert parse_recipe(kept.recipe) == asked
    assert kept.n_bad_lines == 0
    assert [event.accuracy for event in kept.events if isinstance(event, Evaluated)][-1] >= 0.99


def test_that_the_kept_run_of_pooling_ends_on_the_deciding_word() -> None:
    kept = read_run(resources_folder() / "films" / "sentiment-pooling")
    last = load_traces(kept.probes[-1][1])[0]
    weights = last.weights(("pool", 0), 0)
    pieces = [token.piece for token in last.source.tokens]
    assert weights.shape == (1, len(pieces))
    assert pieces[int(weights[0].argmax())] == "wonderful"


def test_that_in_the_kept_run_of_entailment_each_word_finds_its_counterpart_and_small_finds_big() -> None:
    kept = read_run(resources_folder() / "films" / "entailment")
    last = load_traces(kept.probes[-1][1])[0]
    assert last.target is not None
    second, first = ([token.piece for token in one.tokens] for one in (last.target, last.source))
    found = {second[i]: first[int(row.argmax())] for i, row in enumerate(last.weights(("cross", 0), 0))}
    assert {word: found[word] for word in ("two", "small", "dogs")} == {
        "two": "two",
        "small": "big",
        "dogs": "dogs",
    }


@pytest.mark.parametrize("name", ["reverse-labels", "copy-spans"])
def test_that_some_kept_runs_have_looked_at_gradients_and_updates(name: str) -> None:
    looks = read_inspections(resources_folder() / "films" / name)
    assert len(looks) >= 20
    assert looks[-1].moved_norms[0] > 0.0


def test_that_the_kept_run_of_copy_spans_is_of_its_recipe_and_ends_with_long_and_short_spans() -> None:
    resources = resources_folder()
    kept = read_run(resources / "films" / "copy-spans")
    asked = parse_recipe((resources / "recipes" / "copy-spans.toml").read_text(encoding="utf-8"))
    assert parse_recipe(kept.recipe) == asked
    assert kept.n_bad_lines == 0
    evaluated = [event for event in kept.events if isinstance(event, Evaluated)]
    assert evaluated[-1].accuracy == 1.0
    first, last = (dict(event.spans) for event in (evaluated[0], evaluated[-1]))
    assert min(first.values()) > 19.0
    assert all(15.0 < last[f"decoder L0H{head}"] < 16.0 for head in range(2))  # 15 + the ramp of 4 is 19
    assert all(last[f"decoder L1H{head}"] < 3.0 for head in range(2))
    shown = load_traces(kept.probes[-1][1])[0]
    lower, upper = shown.sites
    for head in range(2):
        weights = shown.weights(lower, head)
        copies = [weights[i, i - (3 if k % 2 == 0 else 19)] for k, i in enumerate(range(20, 40, 2))]
        assert min(copies) > 0.6
        beyond = np.tri(40, k=-7, dtype=bool)  # 3 tokens of span and 4 of ramp
        assert np.nansum(np.where(beyond, shown.weights(upper, head), 0.0)) == 0.0


def test_that_the_kept_run_of_copy_segments_is_of_its_recipe_and_copies_over_the_border() -> None:
    resources = resources_folder()
    kept = read_run(resources / "films" / "copy-segments")
    asked = parse_recipe((resources / "recipes" / "copy-segments.toml").read_text(encoding="utf-8"))
    assert parse_recipe(kept.recipe) == asked
    assert kept.n_bad_lines == 0
    assert [event.accuracy for event in kept.events if isinstance(event, Evaluated)][-1] == 1.0
    last = load_traces(kept.probes[-1][1])[0]
    before = [np.nansum(last.weights(site, head)[8:, :8]) for site in last.sites for head in range(2)]
    assert max(before) > 0.9 * 7  # some head copies all letters, each of which stands in the first segment


def test_that_in_the_kept_run_of_reverse_luong_the_predicted_window_leaves_the_middle_for_the_diagonal() -> (
    None
):
    resources = resources_folder()
    kept = read_run(resources / "films" / "reverse-luong")
    asked = parse_recipe((resources / "recipes" / "reverse-luong.toml").read_text(encoding="utf-8"))
    assert parse_recipe(kept.recipe) == asked
    assert [event.accuracy for event in kept.events if isinstance(event, Evaluated)][-1] >= 0.99
    first, last = (load_traces(kept.probes[k][1])[0].weights(("cross", 0), 0) for k in (0, -1))
    n_seen = np.isfinite(last).sum(axis=1)
    assert n_seen.max() <= 2 * asked.model.local_reach + 1 < last.shape[1]
    places = np.arange(last.shape[1])
    middles = [np.mean(places[np.isfinite(row)]) for row in first]
    assert np.ptp(middles) <= 1.0, "before training every step predicts the middle"
    n_letters = len(asked.watch[0].text.split())
    assert np.nanargmax(last[:n_letters], axis=1).tolist() == list(range(n_letters))[::-1]


def test_that_in_the_kept_run_of_agreement_lora_heads_turn_to_what_tells_the_number_of_the_subject() -> None:
    resources = resources_folder()
    kept = read_run(resources / "films" / "agreement-lora")
    asked = parse_recipe((resources / "recipes" / "agreement-lora.toml").read_text(encoding="utf-8"))
    assert parse_recipe(kept.recipe) == asked
    assert asked.start.lora_rank == 4
    assert [event.accuracy for event in kept.events if isinstance(event, Evaluated)][-1] == 1.0
    first, last = (load_traces(kept.probes[k][1])[0] for k in (0, -1))
    pieces = [token.piece for token in last.source.tokens]
    assert pieces[2:4] == ["key", "s"]
    before, after = (
        np.array([trace.weights(("decoder", layer), head)[-2, 3] for layer in range(4) for head in range(8)])
        for trace in (first, last)
    )  # from the word before the verb to the plural ending of the subject
    assert (after > 0.9).sum() >= 4 > 0 == (before > 0.9).sum()


def test_that_in_the_kept_run_of_induction_memory_heads_rest_on_memory_until_the_row_comes_again() -> None:
    resources = resources_folder()
    kept = read_run(resources / "films" / "induction-memory")
    asked = parse_recipe((resources / "recipes" / "induction-memory.toml").read_text(encoding="utf-8"))
    assert parse_recipe(kept.recipe) == asked
    assert [event.accuracy for event in kept.events if isinstance(event, Evaluated)][-1] >= 0.98
    last = load_traces(kept.probes[-1][1])[0]
    pieces = [token.piece for token in last.source.tokens]
    assert pieces[:3] == ["<m1>", "<m2>", "<s>"]
    on_memory = np.array([last.weights(("decoder", 1), head)[3:, :2].sum(axis=1) for head in (0, 1)])
    assert on_memory[:, :2].min() > 0.5
    assert on_memory[:, 6:].max() < 0.1


def test_that_the_run_that_is_shown_first_is_of_the_recipe_that_is_open_then() -> None:
    resources = resources_folder()
    kept = read_run(resources / "films" / "reverse")
    asked = parse_recipe((resources / "recipes" / "reverse.toml").read_text(encoding="utf-8"))
    made = parse_recipe(kept.recipe)
    assert replace(made, training=replace(made.training, save_every=asked.training.save_every)) == asked
    steps = [step for step, _ in kept.probes]
    assert set(steps) >= {0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 1500}
    assert kept.n_bad_lines == 0
    last = load_traces(kept.probes[-1][1])[0]
    assert last.said is not None
    assert last.said.generated == asked.watch[0].target


def test_that_the_kept_run_of_few_shot_is_of_its_recipe_and_looks_at_what_was_told_before() -> None:
    resources = resources_folder()
    kept = read_run(resources / "films" / "few-shot")
    asked = parse_recipe((resources / "recipes" / "few-shot.toml").read_text(encoding="utf-8"))
    assert parse_recipe(kept.recipe) == asked
    assert kept.n_bad_lines == 0
    losses = [event.loss for event in kept.events if isinstance(event, Evaluated)]
    # Letters are one of 4 by chance, digits of new letters one of 8; all else can be known, the end too.
    n_new = 4 * (1 - 0.75**10)
    least = (10 * math.log(4) + n_new * math.log(8)) / 21
    assert least - 0.02 < losses[-1] < least + 0.05
    last = load_traces(kept.probes[-1][1])[0]
    words = last.source.text.split()
    assert words == asked.watch[0].text.split()
    known = [k for k in range(0, len(words), 2) if words[k] in words[:k:2]]
    found = [
        [weights[1 + k, [2 + j for j in range(0, k, 2) if words[j] == words[k]]].sum() for k in known]
        for weights in (last.weights(("decoder", 1), head) for head in (0, 1))
    ]
    assert np.mean(found, axis=1).min() > 0.7


def test_that_the_kept_run_of_tagging_is_of_its_recipe_and_tells_the_verb_from_the_end() -> None:
    resources = resources_folder()
    kept = read_run(resources / "films" / "tagging")
    assert parse_recipe(kept.recipe) == parse_recipe(
        (resources / "recipes" / "tagging.toml").read_text(encoding="utf-8")
    )
    assert kept.n_bad_lines == 0
    assert [event.accuracy for event in kept.events if isinstance(event, Evaluated)][-1] == 1.0


def test_that_the_kept_run_of_pictures_is_of_its_recipe_and_tells_unseen_pictures_apart() -> None:
    resources = resources_folder()
    kept = read_run(resources / "films" / "pictures")
    asked = parse_recipe((resources / "recipes" / "pictures.toml").read_text(encoding="utf-8"))
    assert parse_recipe(kept.recipe) == asked
    assert kept.n_bad_lines == 0
    assert [event.accuracy for event in kept.events if isinstance(event, Evaluated)][-1] >= 0.95
    last = load_traces(kept.probes[-1][1])[0]
    picture = picture_of_tokens(last.source)
    assert picture is not None
    assert picture.text == asked.watch[0].text
    assert (picture.n_rows, picture.n_columns, picture.n_first) == (8, 8, 1)
    has_ink = (picture.pixels[..., 0] < 110).reshape(8, 4, 8, 4).any(axis=(1, 3)).ravel()
    assert 0.2 < has_ink.mean() < 0.4
    first = load_traces(kept.probes[0][1])[0]
    before, after = (
        np.mean([trace.weights(("encoder", 0), head)[0, 1:][has_ink].sum() for head in range(4)])
        for trace in (first, last)
    )
    assert after > 0.75 > 0.45 > before, "the class token learns to look at what is drawn"


def test_that_the_kept_run_of_sentiment_latents_is_of_its_recipe_and_finds_the_word() -> None:
    resources = resources_folder()
    kept = read_run(resources / "films" / "sentiment-latents")
    asked = parse_recipe((resources / "recipes" / "sentiment-latents.toml").read_text(encoding="utf-8"))
    assert parse_recipe(kept.recipe) == asked
    assert kept.n_bad_lines == 0
    assert [event.accuracy for event in kept.events if isinstance(event, Evaluated)][-1] == 1.0
    last = load_traces(kept.probes[-1][1])[0]
    pieces = [token.piece for token in last.source.tokens]
    assert pieces[1:-1] == asked.watch[0].text.split()
    read = [last.weights(site, head) for site in last.sites if site.stack == "read-in" for head in (0, 1)]
    assert max(weights[:, pieces.index("wonderful")].max() for weights in read) > 0.5


def test_that_the_kept_run_of_nested_lists_is_right_on_deeper_lists_and_looks_at_their_names() -> None:
    resources = resources_folder()
    kept = read_run(resources / "films" / "nested-lists")
    asked = parse_recipe((resources / "recipes" / "nested-lists.toml").read_text(encoding="utf-8"))
    assert parse_recipe(kept.recipe) == asked
    assert [event.accuracy for event in kept.events if isinstance(event, Evaluated)][-1] >= 0.96
    last = load_traces(kept.probes[-1][1])[0]
    words, names, open_lists = last.source.text.split(), [], []
    assert words == asked.watch[0].text.split()
    for i, word in enumerate(words):
        if word == "(":
            open_lists.append(i + 1)
        names.append(open_lists[-1])
        if word == ")":
            open_lists.pop()
    looked = [last.weights(("encoder", 1), head)[1:-1, 1:-1].argmax(axis=1) for head in (0, 1)]
    found = [name in places for name, *places in zip(names, *looked, strict=True)]
    assert np.mean(found) >= 0.9


def test_that_the_kept_run_of_next_sentence_is_nearly_always_right_and_says_of_its_pair_that_it_follows() -> (
    None
):
    resources = resources_folder()
    kept = read_run(resources / "films" / "next-sentence")
    asked = parse_recipe((resources / "recipes" / "next-sentence.toml").read_text(encoding="utf-8"))
    assert parse_recipe(kept.recipe) == asked
    last = [event for event in kept.events if isinstance(event, Evaluated)][-1]
    assert last.next_sentence_accuracy is not None
    assert last.next_sentence_accuracy >= 0.95
    assert last.accuracy >= 0.7
    first, trace = (load_traces(kept.probes[k][1])[0] for k in (0, -1))
    assert first.said is not None
    assert trace.said is not None
    assert 0.3 < (first.said.follows or 0.0) < 0.7
    assert (trace.said.follows or 0.0) > 0.95
    pieces = [token.piece for token in trace.source.tokens]
    assert pieces == ["<s>", *asked.watch[0].text.split(), "</s>", *asked.watch[0].target.split(), "</s>"]
    thing, place, other = (pieces.index(piece) for piece in ("spoon", "kitchen", "soup"))
    looked = max(trace.weights(("encoder", 0), head)[thing, [place, other]].sum() for head in range(4))
    assert looked > 0.5


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_that_a_recipe_calls_points_latents_and_mixtures_what_the_maps_call_them(path: Path) -> None:
    remarks = " ".join(line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#"))
    assert "slot" not in remarks
    for number in re.findall(r'"(?:point|latent|projection) (\d+)"', remarks):
        assert 1 <= int(number) <= parse_recipe(path.read_text(encoding="utf-8")).model.n_projected
