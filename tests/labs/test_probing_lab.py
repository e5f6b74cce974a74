"""The lab of probing: what it asks, what it tells of a finding, and what the worker finds."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from attnscope.cli.main import main
from attnscope.errors import UserError
from attnscope.fields import with_texts, with_values
from attnscope.labs import LABS
from attnscope.models import load
from attnscope.records import ExperimentAnswer, OpenModel, ProbeFinding, ProbeLayer, ProbeQuestion, Share
from attnscope.workers.experiments import work_on
from attnscope.workers.experiments.probing import asked_sentences, probe_model

LAB = LABS["Probing"]
CONLLU = "".join(
    f"1\t{noun}\t_\tNOUN\tN\t_\t2\tnsubj:x\t_\t_\n2\tsees\t_\tVERB\tV\t_\t0\troot\t_\t_\n\n"
    for noun in ["girl", "dog", "garden", "man", "boat"] * 3
)


def share(value: float) -> Share:
    return Share(value=value, low=value - 0.02, high=value + 0.02)


def finding(*values: tuple[float, float], n_layers: int = 3, **wishes: object) -> ProbeFinding:
    layers = tuple(
        ProbeLayer(task=share(a), control=share(b), selectivity=share(a - b), by_label=(a, b))
        for a, b in values
    )
    found = ProbeFinding(
        question=ProbeQuestion(), name="tiny", text="the task tagging", labels=("ADJ", "NOUN"), layers=layers,
        n_layers=n_layers, majority=0.4, word_alone=0.6, n_trained=300, n_held_out=100, n_sentences_out=12,
        n_unread=0, unknown_share=0.0,
    )  # fmt: skip
    return replace(found, **wishes)


def told(found: ProbeFinding | None, *, error: str = ""):
    answer = ExperimentAnswer(finding=found, is_exact=not error, error=error)
    return LAB.resolve(replace(LAB.example, answer=answer))


def test_that_the_open_model_is_probed_unless_another_is_named() -> None:
    opened = OpenModel(key="folder abc")
    assert LAB.question(LAB.example, opened) == ProbeQuestion(model="folder abc")
    named = with_texts(LAB.example, ["model=stories"])
    assert LAB.question(named, opened) == LAB.question(named, None) == ProbeQuestion(source="stories")
    assert LAB.question(LAB.example, None) == ProbeQuestion()


@pytest.mark.parametrize("name", ["no-such-model", "stories\0", "../nowhere"])
def test_that_a_model_that_is_nowhere_is_refused(name: str) -> None:
    with pytest.raises(UserError, match="model is"):
        with_values(LAB.example, {"model": name})
    assert with_values(LAB.example, {"model": "tagging"}).model == "tagging"


def test_that_a_file_is_told_from_what_it_was_before_and_its_column_counts(tmp_path: Path) -> None:
    path = tmp_path / "trees.conllu"
    path.write_text(CONLLU)
    choice = with_texts(LAB.example, [f"file={path}", "column=deprel"])
    first = LAB.question(choice, None)
    assert (first.file, first.column) == (str(path), "deprel")
    path.write_text(CONLLU + CONLLU)
    assert LAB.question(choice, None) != first
    plain = with_texts(LAB.example, ["column=deprel"])
    assert LAB.question(plain, None) == LAB.question(LAB.example, None)
    with pytest.raises(UserError, match="no file"):
        with_texts(LAB.example, ["file=/nowhere/trees.conllu"])


def test_that_the_best_layer_is_told_with_its_control_and_what_it_does_not_show() -> None:
    shown = told(finding((0.6, 0.5), (0.9, 0.7), (0.9, 0.5)))
    rows, words = dict(shown.words.numbers), shown.words.sentence
    assert rows["best, after 1 layer"] == "0.900 (0.880–0.920)", "the first of those that are alike"
    assert rows["selectivity there"].startswith("0.200")
    assert rows["words held out"] == "100 in 12 sentences"
    assert "right most often after 1 layer: 0.900 (0.880–0.920)" in words
    assert "which it can only memorise, 0.700." in words
    assert words.endswith("What can be read off there, the model need not use.")
    early = told(finding((0.9, 0.5), n_layers=3)).words.sentence
    assert early.startswith("So far, 1 of 3: ")
    assert "before the first layer" in early


def test_that_what_was_left_out_or_unknown_is_told_and_an_error_stands_alone() -> None:
    shown = told(finding((0.5, 0.5), n_unread=12, unknown_share=0.34))
    rows = dict(shown.words.numbers)
    assert (rows["words left out"], rows["pieces unknown to it"]) == ("12", "34%")
    assert "34% of the pieces are unknown to its tokenizer" in shown.words.sentence
    assert told(None, error="No.").words.sentence == "No."
    assert set(dict(told(None).words.numbers).values()) == {"–"}


def test_that_the_charts_have_both_tasks_and_who_looks_at_no_model() -> None:
    by_layer, selectivity, by_label = LAB.charts(told(finding((0.6, 0.5), (0.9, 0.7), (0.8, 0.6))))
    lines = {series.name: series for series in by_layer.series}
    assert lines["labels"].ys.tolist() == [0.6, 0.9, 0.8]
    assert lines["random labels"].ys.tolist() == [0.5, 0.7, 0.6]
    assert lines["labels, 95 % interval"].ys[:2] == pytest.approx([0.58, 0.62])
    assert (lines["word alone"].ys[0], lines["majority"].ys[0]) == (0.6, 0.4)
    assert by_layer.y_range == (0.0, 1.0)
    assert selectivity.series[-1].ys == pytest.approx([0.1, 0.2, 0.2])
    assert by_label.x_names == ("ADJ", "NOUN")
    assert {s.name: s.ys.tolist() for s in by_label.series[1:]} == {
        "after 0": [0.6, 0.5],
        "after 1": [0.9, 0.7],
    }
    assert len(LAB.charts(told(None))) == 3


def test_that_one_sentence_in_four_is_held_out(tmp_path: Path) -> None:
    texts, name = asked_sentences(ProbeQuestion(n_sentences=40))
    assert (len(texts), sum(is_out for _, is_out in texts), name) == (40, 10, "the task tagging")
    held_out = {text.text for text, is_out in texts if is_out}
    assert not held_out & {text.text for text, is_out in texts if not is_out}
    path = tmp_path / "trees.conllu"
    path.write_text(CONLLU)
    texts, name = asked_sentences(ProbeQuestion(file=str(path)))
    assert (len(texts), sum(is_out for _, is_out in texts), name) == (15, 3, "trees.conllu")
    other, _ = asked_sentences(ProbeQuestion(file=str(path), seed=1))
    assert [is_out for _, is_out in other] != [is_out for _, is_out in texts]
    path.write_text(CONLLU[: len(CONLLU) // 3])
    with pytest.raises(UserError, match="5 sentences with labels"):
        asked_sentences(ProbeQuestion(file=str(path)))


@pytest.mark.slow
def test_that_a_tagger_is_read_better_after_its_layers_than_before_them() -> None:
    news = list(work_on(ProbeQuestion(source="tagging", n_sentences=100), 7, lambda: None))
    found = news[-1].finding
    assert news[-1].is_done
    assert {one.number for one in news} == {7}
    done = [one.n_done for one in news]
    assert done == sorted(done)
    assert done[-1] == news[-1].n_total
    assert found.layers[-1].task.value > 0.97 > found.word_alone > found.majority
    assert found.layers[0].task.high < 0.95, "words alone do not tell noun from verb"
    assert found.layers[-1].selectivity.low > found.layers[0].selectivity.value
    assert 0.0 <= found.unknown_share < 0.01


@pytest.mark.slow
def test_that_the_open_model_is_asked_for_only_where_it_is_meant() -> None:
    asked = []

    def opened():
        asked.append(1)
        return load("tagging", "cpu")

    first = next(
        one.finding for one in probe_model(ProbeQuestion(model="x", n_sentences=40), opened) if one.finding
    )
    assert (first.name, asked) == ("tagging", [1])
    with pytest.raises(UserError, match="does not read sentences"):
        list(probe_model(ProbeQuestion(model="x"), lambda: load("pictures", "cpu")))


@pytest.mark.slow
def test_that_a_file_of_ones_own_is_probed_from_the_command_line(tmp_path: Path, capsys) -> None:
    path = tmp_path / "trees.conllu"
    path.write_text(CONLLU)
    asked = ["lab", "Probing", "--set", "model=tagging", "--set", f"file={path}", "--set", "column=deprel"]
    assert main([*asked, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["numbers"]["sentences"] == "trees.conllu"
    assert found["numbers"]["words held out"] == "6 in 3 sentences"
    assert found["settings"]["column"] == "deprel"
    task = found["charts"][0]["series"][1]
    assert (task["name"], task["xs"], task["ys"]) == ("labels", [0, 1, 2], [1.0] * 3)
    assert main([*asked, "-o", str(tmp_path / "probing.csv")]) == 0
    assert "random labels" in (tmp_path / "probing.csv").read_text()
