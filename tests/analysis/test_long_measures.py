"""Measures of texts that are too long for every row: estimates, their errors, and who gets them."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from tiny_models import SENTENCE, target_of, tiny_model

from attnscope import measure
from attnscope.analysis import cut_strata, estimate_rows, measures
from attnscope.cli.main import main
from attnscope.models import Model
from attnscope.records import HeadMeasures, LoadModel, Traced, TraceText
from attnscope.trace import Trace
from attnscope.workers import Engine

pytestmark = pytest.mark.slow

N_TOKENS = 8_000
EXACT = ("previous", "first", "diagonal")
SAMPLED = ("entropy", "distance", "confidence")
WORDS = ("the", "cat", "sat", "on", "mat", "a", "dog", "saw", "bird", "chat")


def words(n: int, seed: int = 0) -> str:
    return " ".join(np.random.default_rng(seed).choice(WORDS, n))


def long_model(n_tokens: int = N_TOKENS, form: str = "decoder") -> Model:
    return tiny_model(form, n_layers=1, n_heads=2, n_kv_heads=1, d_model=8, max_tokens=n_tokens + 8)


@pytest.fixture(scope="module")
def long_trace() -> Trace:
    trace = long_model().trace(words(N_TOKENS))
    assert len(trace.source) >= N_TOKENS
    return trace


@pytest.fixture(scope="module")
def estimated(long_trace: Trace) -> tuple[HeadMeasures, ...]:
    return measure(long_trace)


def test_that_what_needs_few_columns_is_exact_and_estimates_lie_within_their_errors(
    long_trace: Trace, estimated: tuple[HeadMeasures, ...]
) -> None:
    for found, exact in zip(estimated, measure(long_trace, max_cells=None), strict=True):
        assert (exact.n_rows, exact.entropy_error) == (0, 0.0)
        assert 3_000 < found.n_rows < 4_500
        for name in EXACT:
            assert getattr(found, name) == pytest.approx(getattr(exact, name), rel=1e-4, abs=1e-7)
        for name in SAMPLED:
            error = getattr(found, f"{name}_error")
            assert 0 < error < 0.05 * getattr(exact, name)
            assert abs(getattr(found, name) - getattr(exact, name)) < 4 * error


def test_that_window_python_and_command_line_give_the_same_numbers_of_a_long_text(
    estimated: tuple[HeadMeasures, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, text = tmp_path / "model", tmp_path / "text.txt"
    long_model().save(folder)
    text.write_text(words(N_TOKENS), encoding="utf-8")
    engine = Engine(lambda error, what: None)
    list(engine.handle(LoadModel(number=1, source=str(folder), device="cpu")))
    replies = engine.handle(TraceText(number=2, text=words(N_TOKENS), model=""))
    shown = [reply for reply in replies if isinstance(reply, Traced)]
    assert main(["measure", str(folder), "-f", str(text), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["heads"]
    for python, window, printed in zip(estimated, shown[-1].measures, told, strict=True):
        assert (window.n_rows, printed["n_rows"]) == (python.n_rows, python.n_rows)
        for name in (*EXACT, *SAMPLED, *(f"{name}_error" for name in SAMPLED)):
            assert getattr(window, name) == pytest.approx(getattr(python, name), rel=1e-6, abs=1e-9)
            assert printed[name] == pytest.approx(getattr(python, name), rel=1e-6, abs=1e-9)


def test_that_the_command_says_what_is_estimated_and_reads_every_row_when_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measures, "MAX_CELLS", 20_000)
    long_model(400).save(tmp_path / "model")
    asked = ["measure", str(tmp_path / "model"), "--text", words(400), "--csv", str(tmp_path / "out.csv")]
    assert main(asked) == 0
    said = capsys.readouterr().out
    assert "estimated from" in said
    assert "largest standard errors: entropy" in said
    assert float((tmp_path / "out.csv").read_text(encoding="utf-8").splitlines()[1].split(",")[-1]) > 0
    assert main([*asked, "--every-row"]) == 0
    assert "estimated" not in capsys.readouterr().out
    assert (tmp_path / "out.csv").read_text(encoding="utf-8").splitlines()[1].endswith(",0,0,0")


def test_that_standard_errors_are_as_large_as_the_errors() -> None:
    model, squares = long_model(900), []
    for n in range(500, 900, 25):
        trace = model.trace(words(n, seed=n))
        for found, exact in zip(measure(trace, max_cells=200_000), measure(trace), strict=True):
            assert 100_000 / n * 0.75 < found.n_rows < 100_000 / n * 1.1
            squares += [
                ((getattr(found, name) - getattr(exact, name)) / getattr(found, f"{name}_error")) ** 2
                for name in SAMPLED
            ]
    assert 0.5 < math.sqrt(np.mean(squares)) < 1.5


@pytest.mark.parametrize("form", ["decoder", "encoder", "encoder-decoder"])
def test_that_reading_every_row_as_a_sample_gives_the_exact_measures(form: str) -> None:
    trace = tiny_model(form).trace(SENTENCE, target_of(form))
    exact = {one.head: one for one in measure(trace)}
    for site in trace.sites:
        n = trace.records[site.key].n_queries
        values, errors, n_read = estimate_rows(trace, site, 4 * n)
        assert n_read == n
        assert not any(error.nan_to_num(nan=0.0).any() for error in errors.values())
        for name, found in values.items():
            wanted = [getattr(exact[head], name) for head in site.heads]
            np.testing.assert_allclose(found[0].numpy(), wanted, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("n_queries", "n_rows"), [(65, 64), (1000, 64), (8001, 4000), (8000, 500), (70, 69)])
def test_that_every_row_is_stood_for_once(n_queries: int, n_rows: int) -> None:
    n_first, width = cut_strata(n_queries, n_rows)
    assert (n_queries - n_first) % width == 0
    assert n_first + (n_queries - n_first) // width <= n_rows + width
