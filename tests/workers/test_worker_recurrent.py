"""A recurrent model at the worker and at the command line: what is shown, and what is left out in words."""

from pathlib import Path

import pytest
from tiny_models import FRENCH, SENTENCE, tiny_model
from worker_tools import ask

from attnscope.cli.main import main
from attnscope.records import Failed, InfluenceShown, LoadModel, ShowGraph, ShowInfluence, TraceText
from attnscope.workers import Engine


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    tiny_model("encoder-decoder", body="gru", score="additive", n_kv_heads=4).save(tmp_path / "model")
    engine = Engine(lambda error, what: None)
    ask(engine, LoadModel(number=1, source=str(tmp_path / "model"), device="cpu"))
    ask(engine, TraceText(number=2, text=SENTENCE, target=FRENCH))
    return engine


def test_that_only_raw_attention_is_followed_and_the_others_give_one_reason(engine: Engine) -> None:
    asked = ShowInfluence(number=3, trace=2, position=1, text=SENTENCE, target=FRENCH)
    last = ask(engine, asked)[-1]
    assert isinstance(last, InfluenceShown)
    refused = {row.method: row.refusal for row in last.rows if row.weights is None}
    assert set(refused) == {"rollout", "relevance", "flow"}
    assert len(set(refused.values())) == 1
    assert "recurrent" in refused["rollout"]
    (failed,) = ask(engine, ShowGraph(number=4, trace=2, position=1))
    assert isinstance(failed, Failed)
    assert "recurrent cells" in failed.message


def test_that_info_names_its_cells_and_leaves_out_what_they_never_look_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def told(**choices: object) -> tuple[str, set[str]]:
        """What `attnscope info` says, and the choices of the architecture that it lists."""
        tiny_model("encoder-decoder", **choices).save(tmp_path / "told")
        assert main(["info", str(tmp_path / "told")]) == 0
        said = capsys.readouterr().out
        listed = said.partition("architecture\n")[2].partition("\n\n")[0]
        return said, {line.split()[0] for line in listed.splitlines() if line}

    said, kept = told(body="lstm", local_reach=2)
    assert "recurrent cells (LSTM)" in said
    assert {"body", "feeds_context", "local_reach", "score", "n_heads", "dropout"} <= kept
    assert not {"mask", "position", "norm", "d_ff", "activation", "has_residual"} & kept
    _, plain = told()
    assert "local_reach" not in plain
    assert "mask" in plain
