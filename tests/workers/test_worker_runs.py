"""Following a run and reading many of them, through the engine and the mailbox."""

from pathlib import Path

from attnscope.records import Failed, Finished, FollowRun, OpenRuns, Progress, RunNews, RunsOpened, Step
from attnscope.training import line_from_event
from attnscope.workers import Engine, Mailbox

RECIPE = """
[model]
d_model = 16
n_layers = 1
n_heads = 2

[data]
kind = "task"
task = "copy"

[objective]
kind = "translation"

[training]
n_steps = 3
"""


def _engine() -> Engine:
    return Engine(write_crash=lambda error, what: None)


def _write_run(folder: Path, n_steps: int) -> None:
    folder.mkdir(parents=True)
    (folder / "recipe.toml").write_text(RECIPE)
    values = {"learning_rate": 0.1, "gradient_norm": 1.0, "tokens_per_s": 8.0, "n_tokens": 4}
    events = [Step(step=i + 1, loss=1.0, **values) for i in range(n_steps)]
    lines = [line_from_event(1, event) for event in (*events, Finished(step=n_steps, reason="done"))]
    (folder / "metrics.jsonl").write_text("".join(f"{line}\n" for line in lines))


def test_that_a_run_is_followed_from_mark_to_mark(tmp_path: Path) -> None:
    _write_run(tmp_path / "run", 3)
    engine, folder = _engine(), str(tmp_path / "run")
    (first,) = engine.handle(FollowRun(number=4, folder=folder))
    assert isinstance(first, RunNews)
    assert (first.number, first.is_restart, first.recipe, len(first.events)) == (4, True, RECIPE, 4)
    (second,) = engine.handle(FollowRun(number=5, folder=folder, mark=first.mark))
    assert isinstance(second, RunNews)
    assert (second.number, second.is_restart, second.events) == (5, False, ())


def test_that_a_missing_folder_is_a_failure_in_words(tmp_path: Path) -> None:
    (failed,) = _engine().handle(FollowRun(number=1, folder=str(tmp_path / "none")))
    assert isinstance(failed, Failed)
    assert "does not exist" in failed.message
    assert failed.crash_log == ""


def test_that_many_runs_are_opened_with_progress(tmp_path: Path) -> None:
    for name in ("a", "b"):
        _write_run(tmp_path / name, 2)
    *before, last = _engine().handle(OpenRuns(number=7, folders=(str(tmp_path),)))
    assert {type(reply) for reply in before} == {Progress}
    assert isinstance(last, RunsOpened)
    assert [(run.name, run.step, run.end, run.n_tokens) for run in last.runs] == [
        ("a", 2, "done", 8.0),
        ("b", 2, "done", 8.0),
    ]


def test_that_of_one_folder_only_the_newest_question_waits() -> None:
    mailbox = Mailbox()
    for number, folder in ((1, "a"), (2, "b"), (3, "a")):
        mailbox.post(FollowRun(number=number, folder=folder))
    assert OpenRuns(number=1, folders=()).key is not None
    assert [request.number for request in iter(mailbox.take, None) if request is not None] == [2, 3]
