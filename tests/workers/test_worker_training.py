"""Training between views: the job with runs written here, then the engine with a real run."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from worker_tools import ask, train_to_end

from attnscope.paths import resources_folder
from attnscope.records import (
    TRAINING_MODEL,
    ControlTraining,
    Failed,
    Finished,
    OpenRun,
    Reply,
    RunOpened,
    Saved,
    Started,
    StartTraining,
    Step,
    Traced,
    TraceText,
    TrainingEvent,
    TrainingNews,
)
from attnscope.shapes import drawn_picture
from attnscope.training import Way, descent, kept_ways, parse_recipe
from attnscope.viewmodels.compare import token_labels
from attnscope.workers import Engine, TrainingJob

RECIPE = """
[model]
d_model = 16
n_layers = 1
n_heads = 2
d_ff = 32
max_tokens = 24

[data]
kind = "task"
task = "copy"
n_examples = 60

[objective]
kind = "translation"

[training]
n_steps = {n_steps}
batch_size = 4
evaluate_every = 1000
save_every = 1000
precision = "float32"
"""


class ScriptedRun:
    """A run of a thousand steps that does nothing."""

    def __init__(self, n_steps: int = 1000) -> None:
        self.n_steps = n_steps
        self.is_stopped = False
        self.model = None

    def events(self) -> Iterator[TrainingEvent]:
        yield Started(folder="run", step=0, n_steps=self.n_steps, n_parameters=1, device="cpu")
        for step in range(1, self.n_steps + 1):
            if self.is_stopped:
                yield Finished(step=step - 1, reason="stopped")
                return
            yield Step(step=step, loss=1.0, learning_rate=1.0, gradient_norm=1.0, tokens_per_s=1.0)
        yield Finished(step=self.n_steps, reason="done")

    def request_stop(self) -> None:
        self.is_stopped = True


class Clock:
    """Time in seconds, moved by hand."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def job(clock: Clock) -> TrainingJob:
    return TrainingJob(7, ScriptedRun(), clock=clock)  # type: ignore[arg-type]


def steps_of(replies: list[TrainingNews]) -> list[int]:
    return [event.step for news in replies for event in news.events if isinstance(event, Step)]


def test_that_news_are_told_at_most_twenty_times_a_second_and_lose_nothing(
    job: TrainingJob, clock: Clock
) -> None:
    news = []
    while not job.is_finished:
        if (told := job.advance()) is not None:
            news.append(told)
        clock.now_s += 0.002
    assert steps_of(news) == list(range(1, 1001))
    assert len(news) <= 2.0 * 20 + 3
    assert isinstance(news[0].events[0], Started)
    assert isinstance(news[-1].events[-1], Finished)
    assert {one.number for one in news} == {7}


def test_that_a_paused_job_is_not_active_and_says_so(job: TrainingJob) -> None:
    job.advance()
    job.advance()
    news = job.pause()
    assert news.is_paused
    assert steps_of([news]) == [1]
    assert not job.is_active
    assert not job.resume().is_paused
    assert job.is_active


def test_that_stopping_a_paused_job_lets_it_finish(job: TrainingJob) -> None:
    job.advance()
    job.pause()
    job.stop()
    assert job.is_active
    news = job.advance()
    assert news is not None
    assert news.events[-1] == Finished(step=0, reason="stopped")
    assert job.is_finished


def test_that_a_run_that_raises_is_finished(clock: Clock) -> None:
    class Broken(ScriptedRun):
        def events(self) -> Iterator[TrainingEvent]:
            yield Started(folder="run", step=0, n_steps=1, n_parameters=1, device="cpu")
            raise ZeroDivisionError

    job = TrainingJob(1, Broken(), clock=clock)  # type: ignore[arg-type]
    job.advance()
    with pytest.raises(ZeroDivisionError):
        job.advance()
    assert job.is_finished


def start(folder: Path, n_steps: int = 6, number: int = 3) -> StartTraining:
    return StartTraining(number=number, recipe=RECIPE.format(n_steps=n_steps), out=str(folder), device="cpu")


def events_of(replies: list[Reply]) -> list[TrainingEvent]:
    return [event for reply in replies if isinstance(reply, TrainingNews) for event in reply.events]


@pytest.mark.parametrize("may_choose", [True, False])
def test_that_the_window_trains_with_the_threads_that_are_quickest_unless_a_person_has_said_how_many(
    may_choose: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[list[Way]] = []
    monkeypatch.setattr(descent, "quickest_way", lambda _, ways, **__: tried.append(ways) or ways[0])
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    engine = Engine(lambda *_: None, may_choose_threads=may_choose)
    replies = ask(engine, start(tmp_path / "run"))
    assert not [reply for reply in replies if isinstance(reply, Failed)], replies
    kinds = [Way(), Way(3, True), Way(3)]
    assert tried == ([kinds] if may_choose else [])
    assert kept_ways(tmp_path / "run") == ({1: Way()} if may_choose else {})
    engine.stop_training()
    train_to_end(engine)


def test_that_a_run_tells_its_story_and_can_be_opened_afterwards(engine: Engine, tmp_path: Path) -> None:
    out = tmp_path / "run"
    replies = [*ask(engine, start(out)), *train_to_end(engine)]
    assert not [reply for reply in replies if isinstance(reply, Failed)], replies
    events = events_of(replies)
    assert isinstance(events[0], Started)
    assert [event.step for event in events if isinstance(event, Step)] == [1, 2, 3, 4, 5, 6]
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "done"
    (opened,) = ask(engine, OpenRun(number=4, folder=str(out)))
    assert isinstance(opened, RunOpened)
    assert opened.checkpoints[-1][0] == 6
    assert "copy" in opened.recipe
    (traced,) = ask(engine, TraceText(number=5, text="a b c", model=opened.checkpoints[-1][1]))
    assert isinstance(traced, Traced), traced
    assert traced.step == 6


@pytest.mark.slow
def test_that_the_model_in_training_is_traced_between_steps_and_trains_on_as_if_not(
    engine: Engine, tmp_path: Path
) -> None:
    ask(engine, start(tmp_path / "run", n_steps=8))
    seen: list[Reply] = []
    for _ in range(4):
        seen += engine.advance_training()
    (traced,) = ask(engine, TraceText(number=5, text="a b c", model=TRAINING_MODEL))
    assert isinstance(traced, Traced), traced
    assert traced.check.is_evaluation_mode
    assert traced.step is not None
    watched = events_of([*seen, *train_to_end(engine)])
    alone = events_of([*ask(engine, start(tmp_path / "alone", n_steps=8)), *train_to_end(engine)])
    losses = [[e.loss for e in story if isinstance(e, Step)] for story in (watched, alone)]
    assert losses[0] == losses[1]


def test_that_a_run_pauses_resumes_and_stops_saved(engine: Engine, tmp_path: Path) -> None:
    ask(engine, start(tmp_path / "run", n_steps=10_000))
    for _ in range(3):
        list(engine.advance_training())
    (paused,) = ask(engine, ControlTraining(number=4, action="pause"))
    assert isinstance(paused, TrainingNews)
    assert paused.is_paused
    assert not engine.is_training
    (resumed,) = ask(engine, ControlTraining(number=5, action="resume"))
    assert isinstance(resumed, TrainingNews)
    assert not resumed.is_paused
    ask(engine, ControlTraining(number=6, action="stop"))
    events = events_of(list(train_to_end(engine, n_most=50)))
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "stopped"
    assert any(isinstance(event, Saved) for event in events)


def test_that_f40_a_second_start_is_refused_and_the_first_goes_on(engine: Engine, tmp_path: Path) -> None:
    ask(engine, start(tmp_path / "run", n_steps=10_000))
    (reply,) = ask(engine, start(tmp_path / "other", number=9))
    assert isinstance(reply, Failed)
    assert "already in progress" in reply.message
    assert engine.is_training
    engine.stop_training()
    list(train_to_end(engine, n_most=50))


@pytest.mark.parametrize(
    "recipe", ["", "not toml [", RECIPE.format(n_steps=-1), RECIPE.format(n_steps=1) + "surprise = 1\n"]
)
def test_that_a_wrong_recipe_fails_with_a_sentence_and_starts_nothing(
    engine: Engine, tmp_path: Path, crashes: list[str], recipe: str
) -> None:
    (reply,) = ask(engine, StartTraining(number=3, recipe=recipe, out=str(tmp_path / "run"), device="cpu"))
    assert isinstance(reply, Failed)
    assert reply.crash_log == ""
    assert not engine.is_training
    assert crashes == []


def test_that_what_a_run_kept_is_shown_without_its_model(engine: Engine, tmp_path: Path) -> None:
    out = tmp_path / "run"
    watching = RECIPE.format(n_steps=6) + '[[watch]]\ntext = "a b c"\ntarget = "a b c"\n'
    request = StartTraining(number=3, recipe=watching, out=str(out), device="cpu")
    replies = [*ask(engine, request), *train_to_end(engine)]
    assert not [reply for reply in replies if isinstance(reply, Failed)], replies
    (opened,) = ask(engine, OpenRun(number=4, folder=str(out)))
    assert isinstance(opened, RunOpened)
    kept = dict(opened.probes)
    assert list(kept) == [0, 1, 2, 5, 6]
    shutil.rmtree(out / "checkpoints")
    (traced,) = ask(engine, TraceText(number=5, text="a b c", target="a b c", model=kept[5]))
    assert isinstance(traced, Traced), traced
    assert (traced.step, traced.comparison.after.kind) == (5, "translation")
    assert traced.check.is_good
    (refused,) = ask(engine, TraceText(number=6, text="c b a", target="a b c", model=kept[5]))
    assert isinstance(refused, Failed)
    assert "does not have this sentence" in refused.message


def test_that_a_watched_picture_comes_with_the_maps_of_the_run_and_of_what_it_kept(
    engine: Engine, tmp_path: Path
) -> None:
    out, name = tmp_path / "run", "star x12 y20"
    request = StartTraining(number=3, recipe=PICTURES, out=str(out), device="cpu")
    replies = [*ask(engine, request), *train_to_end(engine)]
    assert not [reply for reply in replies if isinstance(reply, Failed)], replies
    (opened,) = ask(engine, OpenRun(number=4, folder=str(out)))
    assert isinstance(opened, RunOpened)
    for number, model in enumerate((dict(opened.probes)[1], opened.checkpoints[-1][1]), start=5):
        traced = ask(engine, TraceText(number=number, text=name, model=model))[0]
        assert isinstance(traced, Traced), traced
        assert traced.picture is not None
        assert (traced.picture.pixels == drawn_picture(name)[..., None]).all()
        assert (traced.picture.n_rows, traced.picture.n_columns, traced.picture.n_first) == (4, 4, 1)
        assert traced.grids[0].site.n_heads == 2


PICTURES = """
[model]
d_model = 8
n_layers = 1
n_heads = 2
d_ff = 8
max_tokens = 17
patch_size = 8
pooling = "first"

[data]
kind = "task"
task = "drawn-shapes"
n_examples = 8

[objective]
kind = "classification"

[training]
n_steps = 2
batch_size = 4
evaluation_batches = 1
save_every = 2
precision = "float32"

[[watch]]
text = "star x12 y20"
"""


@pytest.mark.parametrize("run", sorted((resources_folder() / "films").iterdir()), ids=lambda run: run.name)
def test_that_a_kept_run_shows_its_watched_sentence_at_its_first_step(engine: Engine, run: Path) -> None:
    """Two texts that are read as one are found as the window asks for them."""
    (opened,) = ask(engine, OpenRun(number=4, folder=str(run)))
    assert isinstance(opened, RunOpened), opened
    sentence = parse_recipe((run / "recipe.toml").read_text("utf-8"), needs_data=False).watch[0]
    wanted = TraceText(
        number=5, text=sentence.text, target=sentence.target or None, model=dict(opened.probes)[0]
    )
    (traced,) = ask(engine, wanted)
    assert isinstance(traced, Traced), traced
    assert traced.step == 0


def test_that_an_opened_run_says_how_many_lines_could_not_be_read(engine: Engine, tmp_path: Path) -> None:
    run = shutil.copytree(sorted((resources_folder() / "films").iterdir())[0], tmp_path / "run")
    (whole,) = ask(engine, OpenRun(number=4, folder=str(run)))
    with (run / "metrics.jsonl").open("ab") as stream:
        stream.write(b'{"attempt": 1, "event": "st\n')
    (opened,) = ask(engine, OpenRun(number=5, folder=str(run)))
    assert isinstance(whole, RunOpened), whole
    assert isinstance(opened, RunOpened), opened
    assert (whole.n_bad_lines, opened.n_bad_lines) == (0, 1)
    assert opened.events == whole.events


TAGGING = PICTURES.replace('"drawn-shapes"', '"tagging"').replace('"classification"', '"labels"')


def test_that_the_label_of_every_token_is_kept_with_a_step(engine: Engine, tmp_path: Path) -> None:
    recipe = TAGGING.replace('patch_size = 8\npooling = "first"\n', "").partition("[[watch]]")[0]
    out, text = tmp_path / "run", "the old man the boats ."
    watching = f'{recipe}[[watch]]\ntext = "{text}"\n'
    replies = [
        *ask(engine, StartTraining(number=3, recipe=watching, out=str(out), device="cpu")),
        *train_to_end(engine),
    ]
    assert not [reply for reply in replies if isinstance(reply, Failed)], replies
    (opened,) = ask(engine, OpenRun(number=4, folder=str(out)))
    assert isinstance(opened, RunOpened)
    said = []
    for number, model in enumerate((dict(opened.probes)[2], opened.checkpoints[-1][1]), start=5):
        (traced,) = ask(engine, TraceText(number=number, text=text, model=model))
        assert isinstance(traced, Traced), traced
        said.append(token_labels(traced.comparison.after))
    assert len(said[0]) == 6
    assert said[0] == said[1]
