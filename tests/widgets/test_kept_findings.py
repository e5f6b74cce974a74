"""The findings that come with the program: they are the examples' own, and what the worker would find."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from session_samples import Desk, state_of

from attnscope.fields import with_values
from attnscope.lab_drawing import drawn_lab, work_out
from attnscope.labs import LABS, Lab
from attnscope.labs import findings as kept_module
from attnscope.labs.findings import TRANSLATOR, kept_findings
from attnscope.models import load
from attnscope.records import (
    DISTANCES,
    BleuFinding,
    DelayFinding,
    ExperimentAnswer,
    ExperimentNews,
    GradientFinding,
    ModifyFinding,
    ProbeFinding,
    Question,
    ReachFinding,
    Request,
    StepsFinding,
    StoreFinding,
    TuneFinding,
    WarmupFinding,
    WritingFinding,
    of_group,
)
from attnscope.workers.experiments import translating_pairs, work_on
from attnscope.workers.experiments.delaying import DelayCourse
from attnscope.workers.experiments.writing_lengths import WritingCourse

ACCURACY_BY_DISTANCE = LABS["Accuracy by distance"]
FINE_TUNING_AND_LUCK = LABS["Fine-tuning and luck"]
LONGER_TEXTS = LABS["Longer texts"]
MODIFICATIONS = LABS["Modifications"]
NORMS_BEFORE_OR_AFTER = LABS["Norms before or after"]
PRECISION_AND_ACCUMULATION = LABS["Precision and accumulation"]
QUALITY_BY_LENGTH = LABS["Quality by length"]
REVERSIBLE_LAYERS = LABS["Reversible layers"]
WHY_WARM_UP = LABS["Why warm-up"]


def experiment_news(question: Question) -> Iterator[ExperimentNews]:
    """What the worker tells of a question that needs no open model."""
    return work_on(question, 0, lambda: pytest.fail("the open model was asked for"))


def question_of(choice: object) -> Question:
    lab = next(one for one in LABS.values() if isinstance(one, Lab) and type(one.example) is type(choice))
    question = lab.question(choice, None)
    assert question is not None
    return question


def make() -> tuple[Any, list[Request]]:
    posted: list[Request] = []
    return state_of(
        "labs.experiments", posted.append, session=Desk().open().session, read_kept=kept_findings
    ), posted


def test_that_the_examples_are_known_at_once_and_say_that_they_were_trained_beforehand() -> None:
    state, posted = make()
    for choice, resolve in (
        (QUALITY_BY_LENGTH.example, QUALITY_BY_LENGTH.resolve),
        (LONGER_TEXTS.example, LONGER_TEXTS.resolve),
    ):
        state.ask(question_of(choice))
        answer = state.answer(question_of(choice))
        assert answer.is_exact
        assert answer.is_kept
        words = resolve(type(choice)(answer=answer)).words  # type: ignore[operator]
        assert "trained before: steps" in dict(words.numbers)
        assert words.sentence.endswith(f" {choice.n_steps:,} steps each, in advance.")
    assert posted == []


def test_that_what_is_kept_was_trained_until_it_is_learned() -> None:
    """With attention every trained length is right, as `attnscope study length` and the lecture have it."""
    found = kept_findings()
    writing, reach = found[question_of(QUALITY_BY_LENGTH.example)], found[question_of(LONGER_TEXTS.example)]
    assert isinstance(writing, WritingFinding)
    assert isinstance(reach, ReachFinding)
    at = writing.lengths.index(writing.question.n_trained)
    exact = {curve.writer: curve.n_exact[: at + 1] for curve in writing.curves}
    for writer in ("additive", "dot", "transformer"):
        assert min(exact[writer]) >= 0.99 * writing.n_rows, writer
    assert exact["none"][0] == writing.n_rows
    assert exact["none"][-1] <= 0.05 * writing.n_rows
    for curve in reach.curves:
        if curve.scheme != "none":  # which has nothing to count with
            assert max(curve.losses[1 : reach.question.n_trained]) < 0.1, curve.scheme


def test_that_kept_modifications_are_whole_and_agree_with_what_is_published_where_both_are_clear() -> None:
    found = kept_findings()
    for group in ("activation", "position"):
        choice = replace(MODIFICATIONS.example, group=group)
        finding = found[question_of(choice)]
        assert isinstance(finding, ModifyFinding)
        assert [row.name for row in finding.rows] == [one.name for one in of_group(group)]
        for row in finding.rows:
            assert len(row.earlies) == len(row.finals) == len(row.bleus) == choice.n_seeds
            assert row.seconds < 120  # two minutes of a processor at the most
            assert max(row.finals) < min(row.earlies)
            assert 0 <= min(row.bleus) <= max(row.bleus) <= 100
    shown = MODIFICATIONS.resolve(
        replace(
            MODIFICATIONS.example,
            group="position",
            answer=ExperimentAnswer(finding=found[question_of(choice)]),
        )
    )
    low_high = dict(zip((row.name for row in shown.rows), shown.gains.tolist(), strict=True))
    assert low_high["none"][1] < 0  # without positions it is worse, over all seeds
    bleus = {row.name: np.array(row.bleus) for row in found[question_of(choice)].rows}
    gaps = bleus["learned"] - bleus["sinusoidal"]  # over three seeds: t of two is 4.303
    assert (
        abs(gaps.mean()) < 4.303 * gaps.std(ddof=1) / len(gaps) ** 0.5
    )  # by BLEU learned ones are as good: 25.7 and 25.8 in table 3 of Vaswani et al. 2017


def test_that_the_kept_runs_of_fine_tuning_are_all_pairs_of_seeds_and_spread() -> None:
    finding = kept_findings()[question_of(FINE_TUNING_AND_LUCK.example)]
    assert isinstance(finding, TuneFinding)
    shown = FINE_TUNING_AND_LUCK.resolve(
        replace(
            FINE_TUNING_AND_LUCK.example,
            answer=ExperimentAnswer(finding=finding, is_exact=True, is_kept=True),
        )
    )
    for grid in shown.accuracies.values():
        assert grid.shape == (4, 4)
        assert np.isfinite(grid).all()
    plain = shown.accuracies[False]
    assert plain.max() - plain.min() > 0.1  # ten points of accuracy by the seeds alone
    assert plain.mean() > 0.5  # a guess is a third
    assert shown.words.sentence.endswith("in advance.")


def test_that_warm_up_and_norm_placement_are_known_at_once_and_show_what_the_papers_do() -> None:
    state, posted = make()
    for choice, resolve in (
        (WHY_WARM_UP.example, WHY_WARM_UP.resolve),
        (NORMS_BEFORE_OR_AFTER.example, NORMS_BEFORE_OR_AFTER.resolve),
    ):
        state.ask(question_of(choice))
        answer = state.answer(question_of(choice))
        assert answer.is_kept
        shown = resolve(type(choice)(answer=answer))  # type: ignore[operator]
        assert shown.words.sentence.endswith("Worked out in advance.")
    assert posted == []
    found = kept_findings()
    warm, norms = found[question_of(WHY_WARM_UP.example)], found[question_of(NORMS_BEFORE_OR_AFTER.example)]
    assert isinstance(warm, WarmupFinding)
    assert isinstance(norms, GradientFinding)
    ends = {run.warming: float(np.mean(run.losses[-10:])) for run in warm.runs}
    assert ends["none"] > 0.9 * np.log(16) > 5 * ends["warmup"]  # derailed, and not (Liu et al. 2020)
    assert ends["radam"] < 0.5
    post, pre = (norms.curve(place, 12) for place in ("post", "pre"))
    assert post is not None
    assert pre is not None
    assert post.norms[-1] > 3 * pre.norms[-1]  # √12 by Xiong et al. 2020


@pytest.mark.slow
def test_that_the_kept_gradients_are_what_the_worker_finds() -> None:
    kept = kept_findings()[question_of(NORMS_BEFORE_OR_AFTER.example)]
    assert isinstance(kept, GradientFinding)
    short = replace(kept.question, n_layers=2)
    *_, last = experiment_news(short)
    found = last.finding
    assert isinstance(found, GradientFinding)
    for curve in found.curves:
        told = kept.curve(curve.place, curve.n_layers)
        assert told is not None
        assert curve.norms == pytest.approx(told.norms, rel=0.02)  # products may be of bfloat16


def test_that_kept_accuracy_is_flat_with_attention_ends_with_the_field_and_falls_in_recurrences() -> None:
    finding = kept_findings()[question_of(ACCURACY_BY_DISTANCE.example)]
    assert isinstance(finding, DelayFinding)
    shown = ACCURACY_BY_DISTANCE.resolve(
        replace(
            ACCURACY_BY_DISTANCE.example,
            answer=ExperimentAnswer(finding=finding, is_exact=True, is_kept=True),
        )
    )
    right, steps, distances = shown.right, shown.steps, np.array(DISTANCES)
    assert all(np.isfinite(one).all() for one in (*right.values(), *steps.values()))
    assert right["attention"].min() >= 0.999
    assert right["convolution"][distances <= shown.reach].min() >= 0.999
    assert right["convolution"][distances > shown.reach].max() < 0.1  # a guess is a sixteenth
    for reader in ("gru", "retention", "selective"):
        assert right[reader][0] > 0.99
        assert right[reader][-1] < 0.6 * right[reader][0]
    assert shown.words.sentence.endswith("3,000 steps at most, in advance.")
    kept = finding.point("attention", 1)
    course = DelayCourse("attention", 1, finding.question)
    assert list(course.train())
    assert course.point() == kept


def test_that_precision_and_reversible_layers_are_known_at_once_and_say_whose_times_they_are() -> None:
    state, posted = make()
    for choice, resolve in (
        (PRECISION_AND_ACCUMULATION.example, PRECISION_AND_ACCUMULATION.resolve),
        (REVERSIBLE_LAYERS.example, REVERSIBLE_LAYERS.resolve),
    ):
        state.ask(question_of(choice))
        answer = state.answer(question_of(choice))
        words = resolve(type(choice)(answer=answer)).words  # type: ignore[operator]
        assert words.sentence.endswith("Measured in advance, on another computer.")
        assert "–" not in dict(words.numbers).values()
        here = resolve(type(choice)(answer=replace(answer, is_kept=False))).words  # type: ignore[operator]
        assert "another computer" not in here.sentence
    assert posted == []


@pytest.mark.long
@pytest.mark.slow
def test_that_the_kept_bytes_losses_and_errors_are_what_the_worker_finds() -> None:
    kept = kept_findings()
    steps, store = (
        kept[question_of(PRECISION_AND_ACCUMULATION.example)],
        kept[question_of(REVERSIBLE_LAYERS.example)],
    )
    assert isinstance(steps, StepsFinding)
    assert isinstance(store, StoreFinding)
    *_, last = experiment_news(steps.question)
    assert isinstance(last.finding, StepsFinding)
    for row, told in zip(last.finding.rows, steps.rows, strict=True):
        assert (row.way, row.most_bytes) == (told.way, told.most_bytes)
        assert row.losses == pytest.approx(told.losses, rel=0.02)  # products may be of bfloat16
    *_, last = experiment_news(store.question)
    assert isinstance(last.finding, StoreFinding)
    for made, seen in zip(last.finding.rows, store.rows, strict=True):
        assert (made.keeping, made.n_layers) == (seen.keeping, seen.n_layers)
        assert (made.kept_bytes, made.most_bytes) == (seen.kept_bytes, seen.most_bytes)
    assert max(store.errors) < 1e-5
    assert max(store.wide_errors) < 1e-12


def test_that_another_choice_is_asked_of_the_worker() -> None:
    state, posted = make()
    other = replace(QUALITY_BY_LENGTH.example, seed=1)
    state.ask(question_of(other))
    assert len(posted) == 1
    assert not state.answer(question_of(other)).is_exact


def test_that_without_the_file_the_examples_are_asked_like_any_other(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(kept_module, "findings_path", lambda: tmp_path / "findings.json")
    assert kept_findings() == {}
    (tmp_path / "findings.json").write_text('{"reach": 1}')
    assert kept_findings() == {}


@pytest.mark.slow
def test_that_what_is_kept_is_what_training_finds() -> None:
    found = kept_findings()
    writing, reach = found[question_of(QUALITY_BY_LENGTH.example)], found[question_of(LONGER_TEXTS.example)]
    assert isinstance(writing, WritingFinding)
    assert isinstance(reach, ReachFinding)
    kept = writing.curves[0]
    course = WritingCourse(kept.writer, writing.question)
    for _ in course.train(writing.read_every):
        pass
    assert course.losses[0] == pytest.approx(kept.losses[0], rel=1e-3)
    assert sum(p.numel() for p in course.module.parameters()) == kept.n_parameters
    begun = next(experiment_news(reach.question)).finding
    assert (begun.n_read, begun.chance) == (reach.n_read, pytest.approx(reach.chance))
    assert all(np.isfinite(curve.losses[1:16]).all() for curve in reach.curves)


@pytest.mark.parametrize("name", ["BLEU", "Probing"])
def test_that_the_labs_of_the_open_model_know_the_one_that_the_program_opens_on(name: str) -> None:
    info = load("english-french", device="cpu").info
    posted: list[Request] = []
    state = state_of(
        "labs.experiments", posted.append, session=Desk().open(info).session, read_kept=kept_findings
    )
    lab = LABS[name]
    question = lab.question(lab.example, state.open_model())
    state.ask(question)
    answer = state.answer(question)
    assert (answer.is_exact, answer.is_kept, posted) == (True, True, [])
    assert lab.resolve(replace(lab.example, answer=answer)).words.sentence.endswith("Worked out in advance.")
    other = replace(info, sha256="0" * 64)  # of other weights nothing is known
    again = state_of(
        "labs.experiments", posted.append, session=Desk().open(other).session, read_kept=kept_findings
    )
    asked = lab.question(lab.example, again.open_model())
    assert again.answer(asked).finding is None
    again.ask(asked)
    assert len(posted) == 1


@pytest.mark.slow
def test_that_the_kept_numbers_of_the_translator_are_those_that_it_gives() -> None:
    kept = kept_findings()
    (bleu,) = (one for one in kept.values() if isinstance(one, BleuFinding) and one.question.model)
    (probes,) = (one for one in kept.values() if isinstance(one, ProbeFinding) and one.question.model)
    *_, last = experiment_news(replace(bleu.question, model=""))
    assert isinstance(last.finding, BleuFinding)
    assert last.finding.score.value == pytest.approx(bleu.score.value, abs=0.5)
    assert len(last.finding.texts) == len(bleu.texts)
    *_, last = experiment_news(replace(probes.question, model="", source="english-french"))
    assert isinstance(last.finding, ProbeFinding)
    for made, told in zip(last.finding.layers, probes.layers, strict=True):
        assert made.task.value == pytest.approx(told.task.value, abs=0.02)
        assert made.control.value == pytest.approx(told.control.value, abs=0.02)


@pytest.mark.parametrize(("name", "settings"), [("BLEU", {}), ("Probing", {"model": "english-french"})])
def test_that_the_command_line_knows_what_came_with_the_program(
    name: str, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured_anew(*_: object) -> None:
        raise AssertionError("measured anew")

    monkeypatch.setattr("attnscope.workers.serve_models.experiment_news", measured_anew)
    lab = drawn_lab(name)
    made = work_out(lab, with_values(lab.example, settings))
    assert made.shown.words.sentence.endswith("Worked out in advance.")
    assert TRANSLATOR == translating_pairs.TRANSLATOR
    other = {"BLEU": {"n_pairs": 20}, "Probing": {"model": "stories"}}[name]
    with pytest.raises(AssertionError, match="measured anew"):
        work_out(lab, with_values(lab.example, {**settings, **other}))
