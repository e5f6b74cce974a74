"""Several processes that train one model: the same steps as one process, and what is refused."""

import dataclasses
import signal
import socket
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TextIO

import numpy as np
import pytest
import torch
from forked import start

from attnscope.errors import RecipeError, UserError
from attnscope.models import read_model_folder
from attnscope.records import Evaluated, Started, Step
from attnscope.training import (
    ALONE,
    Batch,
    Ranks,
    distributed,
    joined,
    padded,
    parse_recipe,
    ranks_of,
    read_run,
    rows_of,
    train,
)

# Without biases: that of keys changes no weight (softmax is blind to it), so its gradient is rounding noise,
# which Adam makes as large as any other.
RECIPE = """
[model]
d_model = 16
n_layers = 1
n_heads = 2
d_ff = 32
max_tokens = 16
bias = false

[data]
kind = "task"
task = "reverse"
max_words = 6
n_examples = 50

[objective]
kind = "translation"

[schedule]
warmup_steps = 2

[training]
n_steps = 5
batch_size = 5
accumulate = 2
precision = "float32"
evaluate_every = 5
evaluation_batches = 2
seed = 3
"""


_BOTH_WAYS = """
import os, sys
from pathlib import Path
import torch
from attnscope.training import read_recipe
from attnscope.training.distributed import joined, ranks_of
from attnscope.training.loop import TrainingRun
ranks = ranks_of(os.environ)
with joined(ranks, torch.device("cpu")) as device:
    for name, is_sharded in (("summed", "false"), ("sharded", "true")):
        recipe = read_recipe(sys.argv[1], {"training.sharded": is_sharded})
        for last in (3, 5):  # stopped, and gone on with
            run = TrainingRun(recipe, Path(sys.argv[2]) / name, device, ranks=ranks)
            holds_weights = ranks.is_writer or is_sharded == "false"
            assert run.model.own.device.type == ("cpu" if holds_weights else "meta")
            for event in run.events():
                if event.step == last:
                    run.request_stop()
"""


def _run_two_processes(script: str, *arguments: Path | str) -> list[tuple[BaseProcess, TextIO]]:
    """Start a script twice, in processes such as torchrun starts."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    return [start(script, *arguments, **shared, RANK=f"{rank}", LOCAL_RANK=f"{rank}") for rank in range(2)]


def _ended(process: BaseProcess, told: TextIO) -> tuple[int | None, str]:
    with told:
        said = told.read()
    process.join()
    return process.exitcode, said


def _finish(processes: list[tuple[BaseProcess, TextIO]]) -> None:
    ended = [_ended(*one) for one in processes]
    assert [code for code, _ in ended] == [0, 0], ended


@pytest.mark.slow
def test_that_two_processes_make_the_steps_of_one(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE.replace('"translation"', '"translation"\nguided_head = "L0H1"'))
    alone = [e for e in train(recipe, tmp_path / "one", "cpu") if isinstance(e, Step | Evaluated)]
    one = read_model_folder(tmp_path / "one" / "checkpoints" / "5").module.state_dict()
    _finish(_run_two_processes(_BOTH_WAYS, recipe, tmp_path))
    for name in ("summed", "sharded"):
        told = [e for e in read_run(tmp_path / name).events if isinstance(e, Step | Evaluated)]
        assert len(told) == len(alone) == 6
        for a, b in zip(alone, told, strict=True):
            assert b.loss == pytest.approx(a.loss, abs=1e-6)
        assert [event.step for event in told if isinstance(event, Step)] == [1, 2, 3, 4, 5]
        two = read_model_folder(tmp_path / name / "checkpoints" / "5").module.state_dict()
        worst = max((one[key] - two[key]).abs().max().item() for key in one)
        assert worst <= 1e-6, f"{name}: weights differ by {worst:.3g}"


_WRITER_DIES_ONCE = """
import os, signal, sys
from pathlib import Path
import torch
from attnscope.records.runs import Step
from attnscope.training import read_recipe
from attnscope.training.distributed import joined, ranks_of
from attnscope.training.loop import TrainingRun
ranks = ranks_of(os.environ)
is_first = sys.argv[3] == "first"
with joined(ranks, torch.device("cpu")) as device:
    for event in TrainingRun(read_recipe(sys.argv[1]), Path(sys.argv[2]), device, ranks=ranks).events():
        if is_first and ranks.is_writer and isinstance(event, Step) and event.step == 4:
            os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_that_processes_started_again_go_on_from_the_last_checkpoint_when_one_has_died(
    tmp_path: Path,
) -> None:
    recipe, out = tmp_path / "recipe.toml", tmp_path / "torn"
    recipe.write_text(RECIPE + "save_every = 2\n")
    writer, other = _run_two_processes(_WRITER_DIES_ONCE, recipe, out, "first")
    code, said = _ended(*writer)
    assert code == -signal.SIGKILL, said
    other[0].kill()  # as torchrun does with what is left before it starts all again
    _ended(*other)
    _finish(_run_two_processes(_WRITER_DIES_ONCE, recipe, out, "again"))
    alone = [e for e in train(recipe, tmp_path / "one", "cpu") if isinstance(e, Step)]
    told = read_run(out).events
    notes = [event.note for event in told if isinstance(event, Started)]
    assert len(notes) == 2
    assert "Resumed at step 2." in notes[1]
    steps = [event for event in told if isinstance(event, Step)]
    assert [event.step for event in steps] == [1, 2, 3, 4, 5]
    for a, b in zip(alone, steps, strict=True):
        assert b.loss == pytest.approx(a.loss, abs=1e-6)
    one, two = (
        read_model_folder(run / "checkpoints" / "5").module.state_dict() for run in (tmp_path / "one", out)
    )
    worst = max((one[key] - two[key]).abs().max().item() for key in one)
    assert worst <= 1e-6, f"weights differ by {worst:.3g}"


def test_that_rows_of_a_batch_score_what_they_scored_in_it() -> None:
    sources, _ = padded([[1, 2, 3], [4, 5], [6], [7, 8, 9]], pad_id=0)
    targets, lengths = padded([[1, 2], [3, 4, 5, 6], [7], [8, 9, 1]], pad_id=0)
    is_scored = np.arange(4) < lengths[:, None]
    scored = np.flatnonzero(is_scored)
    batch = Batch(
        ids=torch.from_numpy(sources),
        target_ids=torch.from_numpy(targets),
        valid=torch.from_numpy(sources > 0),
        scored=torch.from_numpy(scored),
        labels=torch.from_numpy(targets.reshape(-1)[scored] * 10),
    )
    parts = [Ranks(index=i, n=3).share(batch) for i in range(3)]
    assert [len(part.ids) for part in parts] == [1, 1, 2]
    for part in parts:
        assert part.target_ids is not None
        torch.testing.assert_close(part.target_ids.reshape(-1)[part.scored] * 10, part.labels)
    torch.testing.assert_close(torch.cat([part.labels for part in parts]), batch.labels)
    torch.testing.assert_close(torch.cat([part.ids for part in parts]), batch.ids)


def test_that_every_field_of_a_batch_with_rows_is_cut() -> None:
    rows = {
        name: torch.arange(12).reshape(4, 3)
        for name in ("ids", "valid", "target_ids", "target_valid", "segments", "valid_on_cpu")
    }
    batch = Batch(
        **rows,
        scored=torch.arange(12),
        labels=torch.arange(12),
        is_next=torch.arange(4),
        pair_weight=2.0,
        words=(("a",), ("b", "c"), (), ("d",)),
        links=torch.tensor([[0, 1, 2], [1, 0, 2], [2, 1, 1], [2, 2, 0], [3, 0, 0]]),
    )
    named = {f.name for f in dataclasses.fields(Batch)}
    assert named == {
        *rows,
        "scored",
        "labels",
        "is_next",
        "pair_weight",
        "gates",
        "links",
        "link_weight",
        "guide",
        "n_places",
        "words",
    }, "rows_of must know them all"
    part = rows_of(batch, 1, 3)
    for name in rows:
        assert getattr(part, name).tolist() == [[3, 4, 5], [6, 7, 8]], name
    assert part.is_next is not None
    assert part.is_next.tolist() == [1, 2]
    assert part.words == (("b", "c"), ())
    assert part.labels.tolist() == list(range(3, 9))
    assert part.links is not None
    assert part.links.tolist() == [[0, 0, 2], [1, 1, 1], [1, 2, 0]]


@pytest.mark.parametrize("n_rows", [4, 5, 7, 11])
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_that_every_row_of_a_batch_is_one_processs(n_rows: int, n: int) -> None:
    ids = torch.arange(n_rows)[:, None].repeat(1, 2)
    batch = Batch(ids=ids, scored=torch.arange(2 * n_rows), labels=torch.arange(2 * n_rows))
    shares = [Ranks(index=index, n=n).share(batch) for index in range(n)]
    assert torch.cat([share.ids for share in shares]).tolist() == ids.tolist()
    assert torch.cat([share.labels for share in shares]).tolist() == list(range(2 * n_rows))
    assert max(len(share.ids) for share in shares) - min(len(share.ids) for share in shares) <= 1


def test_that_torchruns_variables_say_who_a_process_is() -> None:
    assert ranks_of({}) == ALONE
    assert ranks_of({"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4"}) == Ranks(index=3, n=4, local=1)
    assert not Ranks(index=3, n=4).is_writer
    with pytest.raises(UserError, match="RANK is 'x'"):
        ranks_of({"RANK": "x", "WORLD_SIZE": "2"})


def test_that_half_of_the_variables_are_none_and_the_first_of_a_computer_needs_no_number() -> None:
    assert ranks_of({"RANK": "1"}) == ranks_of({"WORLD_SIZE": "2"}) == ALONE
    assert ranks_of({"RANK": "1", "WORLD_SIZE": "2"}) == Ranks(index=1, n=2, local=0)


def test_that_attempts_are_counted_where_one_computer_has_all_processes() -> None:
    again = {"RANK": "0", "WORLD_SIZE": "2", "TORCHELASTIC_RESTART_COUNT": "3"}
    assert ranks_of({**again, "GROUP_WORLD_SIZE": "1"}).attempt == 3
    assert ranks_of({**again, "GROUP_WORLD_SIZE": "2"}).attempt == 0


def test_that_processes_started_again_do_not_find_the_addresses_of_the_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = torch.distributed.HashStore()  # as torchrun's own, which outlives what it starts
    met = []
    monkeypatch.setattr(distributed, "rendezvous", lambda url: iter([(kept, 0, 2)]))
    monkeypatch.setattr(distributed.dist, "init_process_group", lambda _, **given: met.append(given["store"]))
    monkeypatch.setattr(distributed.dist, "destroy_process_group", lambda: None)
    for attempt in (0, 1):
        with joined(Ranks(index=0, n=2, attempt=attempt), torch.device("cpu")):
            assert not met[-1].check(["address"])
            met[-1].set("address", f"of attempt {attempt}")
    assert met[0].get("address") == b"of attempt 0"
    with joined(Ranks(index=0, n=2, attempt=2), torch.device("mps")) as device:
        assert device.type == "cpu"  # what lies on a Mac's graphics device is not sent


def test_that_processes_that_cannot_meet_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def _refuse(url: str) -> None:
        raise RuntimeError("connection refused")

    monkeypatch.setattr(distributed, "rendezvous", _refuse)
    with (
        pytest.raises(UserError, match="Process 2 of 3 cannot reach the others: connection refused"),
        joined(Ranks(index=1, n=3), torch.device("cpu")),
    ):
        pytest.fail("they met")


def test_that_a_batch_smaller_than_the_processes_is_a_recipe_error() -> None:
    Ranks(index=0, n=4).check_batch(4)
    with pytest.raises(RecipeError, match="batch_size is 3 for 4 processes"):
        Ranks(index=0, n=4).check_batch(3)


def test_that_one_process_alone_exchanges_nothing() -> None:
    batch = Batch(ids=torch.ones(1, 2), scored=torch.tensor([0]), labels=torch.tensor([1]))
    assert ALONE.share(batch) is batch
    assert ALONE.totals([1.5, 2.0], torch.device("cpu")) == (1.5, 2.0)
    assert ALONE.any(True, torch.device("cpu")) is True
    value = torch.tensor(3.0)
    assert ALONE.mean(value) is value
    assert parse_recipe(RECIPE).training.sharded is False
