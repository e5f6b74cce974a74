"""What a notebook shows: pages to hover over, pictures without scripts, tables, axes of matplotlib."""

import base64
import html
import json
import re
import shutil
import subprocess

import numpy as np
import pytest
from figure_samples import spec

import attnscope as at
from attnscope import Figure
from attnscope.counting import MOST_ROWS, html_table
from attnscope.errors import UserError
from attnscope.records import NO_GATES, CurvePoint, HeadRef, HeadScore, Importance, NumberTable, PruningCurve

EVIL = ("</script><img src=x onerror=alert(1)>", "&amp;", "\u2028", "\u202e", "a")


def given(n_layers=2, n_heads=2, n=5, names=None):
    """A trace of weights that look like noise, as large on a page as weights can be."""
    scores = np.random.default_rng(0).normal(size=(n_layers, n_heads, n, n)) * 2
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    weights[..., ~np.tri(n, dtype=bool)] = np.nan if n == 5 else weights.mean()
    weights /= np.nansum(weights, axis=-1, keepdims=True)
    return at.from_arrays(weights.astype(np.float32), names or [f"token{i}" for i in range(n)])


def page_of(figure):
    """The whole of the page, what its script is told, and the picture below it."""
    text = figure._repr_html_()
    data = json.loads(re.search(r"^const data = (.*);$", text, re.M)[1])
    picture = re.search(
        r'<img alt="[^"]*" style="max-width:100%" src="data:(image/[a-z+]+);base64,([^"]*)">', text
    )
    assert picture is not None
    return text, data, (picture[1], base64.b64decode(picture[2]))


@pytest.mark.parametrize(
    ("view", "draw"), [("grid", "Grid"), ("head", "Maps"), ("lines", "Lines"), ("panels", "Maps")]
)
def test_that_a_map_of_weights_is_a_page_with_a_picture_below(view, draw):
    text, data, (kind, picture) = page_of(at.figure(given(), view=view))
    assert f"draw{draw}(root, data);" in text
    assert kind == "image/svg+xml"
    assert b"<svg" in picture
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert data["title"]


def test_that_twelve_times_twelve_heads_at_32_tokens_fit():
    figure = at.figure(given(12, 12, 32))
    text, data, (kind, picture) = page_of(figure)
    assert len(text.encode()) <= 300_000
    assert (kind, picture[:4]) == ("image/png", b"\x89PNG")
    levels = np.frombuffer(base64.b64decode(data["cells"]), np.uint8).reshape(12, 12, 32, 32)
    np.testing.assert_array_equal(levels, [grid.levels for grid in figure.spec.grids])


def test_that_few_weights_are_exact_and_many_are_levels_of_the_largest():
    trace = given()
    _, data, _ = page_of(at.figure(trace, view="head", head="L1H1"))
    cells = np.frombuffer(base64.b64decode(data["cells"]), "<f4").reshape(5, 5)
    np.testing.assert_array_equal(cells, trace.weights("L1H1"))
    assert not data["isRounded"]
    many = given(1, 1, 150)
    _, data, _ = page_of(at.figure(many, view="head"))
    assert data["isRounded"]
    levels = np.frombuffer(base64.b64decode(data["cells"]), np.uint8).reshape(150, 150)
    peak = data["maps"][0]["peak"]
    np.testing.assert_allclose((levels - 1.0) / 254 * peak, many.weights("L0H0"), atol=peak / 508 * 1.001)


def test_that_tokens_from_strangers_are_text_and_nothing_else():
    for view in ("grid", "head", "lines"):
        text, data, _ = page_of(at.figure(given(names=EVIL), view=view, title=EVIL[0]))
        assert text.count("</script>") == text.count("<script>") == 1
        assert "<img src=x" not in text
        assert "\u2028" not in text
        assert "\u202e" not in text
        shown = data["sites"][0] if view == "grid" else data["maps"][0]
        assert shown["queries"][1] == "&amp;"
    assert html.escape(EVIL[0]) in given(names=EVIL)._repr_html_()


def test_that_what_is_no_map_or_too_large_is_a_picture_alone():
    assert Figure(spec("positions"))._repr_html_() is None
    assert Figure(spec("grid"))._repr_html_() is None  # its tokens are not known
    assert at.figure(given(1, 1, 400), view="head")._repr_html_() is None
    assert at.figure(given(1, 1, 120))._repr_html_() is None  # a thumbnail has fewer cells than its map


def test_that_the_same_figure_is_the_same_page():
    assert at.figure(given())._repr_html_() == at.figure(given())._repr_html_()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
@pytest.mark.parametrize("view", ["grid", "lines"])
def test_that_the_script_of_the_page_is_one(view, tmp_path):
    text, _, _ = page_of(at.figure(given(), view=view))
    (tmp_path / "page.js").write_text(re.search(r"<script>(.*)</script>", text, re.S)[1])
    subprocess.run(["node", "--check", str(tmp_path / "page.js")], check=True, timeout=60)


def test_that_traces_models_and_findings_are_tables():
    model = at.load("grammar")
    assert "<td>parameters</td>" in model._repr_html_()
    trace = model.trace("the white cat sleeps")
    shown = trace._repr_html_()
    assert shown.count("<tr>") == 1 + len(trace.sites) + 2
    assert "the white cat sleeps" in re.sub("▁|</?w>", "", shown)
    assert "<th>module</th>" not in shown
    assert (
        "what it does"
        in at.measure_texts(model, [("the white cat sleeps", "le chat blanc dort")])._repr_html_()
    )


def test_that_a_cell_of_a_table_is_no_markup_and_no_number_is_empty():
    shown = html_table(["<a>"], [[float("nan")], [1 / 3], [12_345], ["<b>"]], title="<c>")
    assert [*re.findall("<td>(.*?)</td>", shown)] == ["", "0.3333", "12,345", "&lt;b&gt;"]
    assert "<th>&lt;a&gt;</th>" in shown
    assert "<b>&lt;c&gt;</b>" in shown
    assert f"… {MOST_ROWS + 1} rows in all" in html_table(["a"], [[1]] * (MOST_ROWS + 1))


def test_that_findings_are_one_line_of_text():
    found = at.measure_texts(at.load("grammar"), [("the white cat sleeps", "le chat blanc dort")])
    assert repr(found) == "Findings of 48 heads of grammar over 1 text"


def test_that_one_head_is_drawn_step_by_step():
    model = at.load("grammar")
    made = at.inside_figure(model, "the white cat sleeps", "cross:L1H0", 2, step="product", has_caption=True)
    shown = made.spec.inside.inside
    assert (shown.head.label, shown.query, len(shown.keys)) == ("L1H0", 2, 5)
    weights = model.trace("the white cat sleeps").weights("cross:L1H0")
    np.testing.assert_allclose(shown.weight, weights[2], atol=1e-5)  # float32: scores of 20
    assert (
        at.inside_figure(model, "the white cat sleeps", "cross:L1H0").spec.inside.inside.query
        == len(weights) - 1
    )
    assert b"<svg" in made.render("svg")
    assert made._repr_html_() is None
    for wrong, message in (
        ({"query": 99}, "There is no query 99"),
        ({"step": "sum"}, "There is no step 'sum'"),
    ):
        with pytest.raises(UserError, match=message):
            at.inside_figure(model, "the white cat sleeps", "cross:L1H0", **wrong)
    with pytest.raises(UserError, match=r"Open one: attnscope\.load"):
        at.inside_figure("grammar", "the white cat sleeps", "cross:L1H0")


HEAD = HeadRef(stack="encoder", layer=1, head=2)
SCORES = Importance(
    ranking="gradient", scores=(HeadScore(head=HEAD, value=0.5, low=0.25, high=0.75),), n_texts=1
)
CURVE = PruningCurve(
    ranking="gradient",
    metric="loss",
    points=(CurvePoint(n_removed=0, gates=NO_GATES, value=1.0, low=0.5, high=2.0),),
    n_heads=4,
    n_texts=1,
)
TABLE = NumberTable(title="t", columns=("layer", "norm"), rows=((0, 1.5), (1, 2.5)))


def test_that_tables_are_rows_and_columns():
    assert SCORES.rows() == [
        {"stack": "encoder", "layer": 1, "head": 2, "value": 0.5, "low": 0.25, "high": 0.75}
    ]
    assert CURVE.to_dict() == {"n_removed": [0], "value": [1.0], "low": [0.5], "high": [2.0]}
    assert TABLE.to_dict() == {"layer": [0, 1], "norm": [1.5, 2.5]}
    (first, *_) = at.measure(given())
    assert first.to_dict()["entropy"] == first.entropy
    assert [*first.to_dict()][:3] == ["stack", "layer", "head"]
    for one in (SCORES, CURVE, TABLE):
        assert "<table>" in one._repr_html_()


def test_that_pandas_takes_tables():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    assert pandas.DataFrame(SCORES.to_dict()).loc[0, "value"] == 0.5
    assert pandas.DataFrame(TABLE.to_dict())["norm"].mean() == 2.0
    assert len(pandas.DataFrame([one.to_dict() for one in at.measure(given())])) == 4


def test_that_axes_need_matplotlib(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr("attnscope.figures.figure.import_module", missing)
    with pytest.raises(UserError, match=r"matplotlib is not installed\..*pip install matplotlib"):
        at.figure(given(), view="head").to_matplotlib()


def test_that_one_head_is_a_map_of_matplotlib_and_other_views_are_pictures():
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    trace = given(names=["$a", "b", "c", "d", "e"])
    figure, (left, right) = plt.subplots(1, 2)
    assert at.figure(trace, view="head", head="L1H0").to_matplotlib(left) is left
    np.testing.assert_array_equal(left.images[0].get_array().filled(np.nan), trace.weights("L1H0"))
    assert [label.get_text() for label in left.get_xticklabels()][:2] == [r"\$a", "b"]
    assert (left.get_xlabel(), left.get_ylabel()) == ("Key", "Query")
    assert at.figure(trace).to_matplotlib(right).images[0].get_array().shape[-1] == 3
    figure.canvas.draw()
    new = at.figure(trace, view="head", width_mm=50.8, height_mm=50.8).to_matplotlib()
    np.testing.assert_allclose(new.figure.get_size_inches(), (2, 2))
    with pytest.raises(UserError, match="Expected matplotlib axes"):
        at.figure(trace).to_matplotlib("left")
    plt.close("all")


CELLS = """
import attnscope as at, numpy as np
weights = np.full((2, 2, 3, 3), 1 / 3, np.float32)
trace = at.from_arrays(weights, ["the", "cat", "sat"])
trace
===
at.figure(trace)
===
at.figure(trace, view="lines", heads=["L0H0"])
===
at.lab("Scaling by √d")
"""


@pytest.mark.slow
def test_that_a_notebook_run_without_a_network_shows_pages_pictures_and_tables(tmp_path, monkeypatch):
    nbconvert = pytest.importorskip("nbconvert", reason="nbconvert is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    import nbformat
    from nbconvert.preprocessors import ExecutePreprocessor

    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    cells = [nbformat.v4.new_code_cell(text.strip()) for text in CELLS.split("===")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python", "language": "python"}}
    notebook.metadata.update(kernel)
    ExecutePreprocessor(timeout=120).preprocess(notebook, {"metadata": {"path": str(tmp_path)}})
    table, grid, lines, lab = (cell.outputs[0]["data"] for cell in notebook.cells)
    assert "<table>" in table["text/html"]
    assert table["text/plain"].startswith("Trace of 3 tokens")
    for shown in (grid, lines):
        assert "data-attnscope" in shown["text/html"]
        assert shown["image/svg+xml"].lstrip().startswith(("<?xml", "<svg"))
    assert "text/html" not in lab
    text, _ = nbconvert.HTMLExporter().from_notebook_node(notebook)
    assert text.count("data-attnscope=") >= 2
