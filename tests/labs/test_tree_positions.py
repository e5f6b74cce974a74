"""Tree positions against slow float64 versions on random trees, and what files may be opened."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import attnscope as at
from attnscope.cli.main import main
from attnscope.errors import UserError
from attnscope.labs.modifications import rank_correlation
from attnscope.labs.tree_positions import (
    BASE,
    D_MODEL,
    ENCODINGS,
    MOST_TREES,
    MOST_WORDS,
    TreeChoice,
    TreePositions,
    branches_of,
    cosines,
    depths_of,
    look_at_tree,
    path_table,
    read_sentences,
    relative_positions,
    tree_distances,
)

HEADS = [
    [-1],
    [1, -1],
    [-1, 0, 1, 2],
    [1, 10, 6, 5, 5, 6, 1, 9, 9, 6, -1],
    *([random.Random(seed).randrange(i) if i else -1 for i in range(12)] for seed in range(3)),
]


def conllu(*sentences: list[int]) -> str:
    """Sentences with these heads, of words w1, w2, …"""
    return "\n".join(
        "".join(
            f"{i + 1}\tw{i + 1}\t_\tNOUN\t_\t_\t{head + 1}\t{'root' if head < 0 else 'dep'}\t_\t_\n"
            for i, head in enumerate(heads)
        )
        for heads in sentences
    )


def slow_distance(heads: list[int], i: int, j: int) -> int:
    """Breadth first over the edges."""
    near = {k: {head} if (head := heads[k]) >= 0 else set() for k in range(len(heads))}
    for k, head in enumerate(heads):
        if head >= 0:
            near[head].add(k)
    reached, n_steps = {i}, 0
    while j not in reached:
        reached |= {other for one in reached for other in near[one]}
        n_steps += 1
    return n_steps


def slow_path(heads: list[int], i: int, decay: float) -> list[float]:
    """The stack of section 3, push by push."""
    children = {k: [j for j, head in enumerate(heads) if head == k] for k in range(len(heads))}
    width = max(1, *(len(one) for one in children.values()))
    root = heads.index(-1)
    depth = max(1, *(slow_distance(heads, root, k) for k in range(len(heads))), 1)

    def encode(k: int) -> list[float]:
        if heads[k] < 0:
            return [0.0] * (width * depth)
        unit = [float(b == children[heads[k]].index(k)) for b in range(width)]
        return unit + encode(heads[k])[:-width]

    size = ((1 - decay**2) * width * depth / 2) ** 0.5
    return [x * size * decay ** (m // width) for m, x in enumerate(encode(i))]


@pytest.mark.parametrize("heads", HEADS, ids=len)
def test_that_distances_depths_and_paths_equal_slow_ones(heads: list[int]) -> None:
    n, root = len(heads), heads.index(-1)
    found = tree_distances(heads)
    for i in range(n):
        assert depths_of(heads)[i] == slow_distance(heads, root, i)
        for j in range(n):
            assert found[i, j] == slow_distance(heads, i, j)
    for decay in (0.1, 0.7, 0.95):
        slow = np.array([slow_path(heads, i, decay) for i in range(n)])
        np.testing.assert_allclose(path_table(heads, decay), slow, atol=1e-12)


@pytest.mark.parametrize("heads", HEADS, ids=len)
def test_that_relative_positions_are_those_of_the_paper(heads: list[int]) -> None:
    found, depth = relative_positions(heads), depths_of(heads)
    for i in range(len(heads)):
        for j in range(len(heads)):
            is_one_branch = slow_distance(heads, i, j) == abs(depth[i] - depth[j])
            expected = depth[i] - depth[j] if is_one_branch else (1 if i > j else -1) * (depth[i] + depth[j])
            assert found[i, j] == expected
    np.testing.assert_array_equal(found, -found.T)


def test_that_one_matrix_takes_every_head_to_its_child() -> None:
    heads = HEADS[3]
    table, branches, decay = path_table(heads, 0.6), branches_of(heads), 0.6
    width = max(branches) + 1
    pushed = np.zeros((table.shape[1],) * 2)
    pushed[width:, :-width] = decay * np.eye(table.shape[1] - width)
    size = np.sqrt((1 - decay**2) * table.shape[1] / 2)
    for i, head in enumerate(heads):
        if head >= 0:
            unit = size * np.eye(table.shape[1])[branches[i]]
            np.testing.assert_allclose(table[i], pushed @ table[head] + unit, atol=1e-12)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("sentence", [1, 2, 3, 4])
def test_that_maps_hold_what_the_encodings_say(encoding: str, sentence: int) -> None:
    shown = look_at_tree(TreeChoice(encoding=encoding, sentence=sentence))
    heads = list(shown.sentence.heads)
    n = len(heads)

    def wave(t: float) -> np.ndarray:
        angles = [t * BASE ** (-2 * p / D_MODEL) for p in range(D_MODEL // 2)]
        return np.array([f(a) for a in angles for f in (np.sin, np.cos)])

    def cosine(a: np.ndarray, b: np.ndarray) -> float:
        size = np.sqrt(a @ a) * np.sqrt(b @ b)
        return float(a @ b / size) if size else float("nan")

    for i in range(n):
        for j in range(n):
            row = {"distance": abs(i - j), "relative": i - j}.get(encoding, cosine(wave(i), wave(j)))
            depth = [slow_distance(heads, heads.index(-1), k) for k in (i, j)]
            tree = {
                "distance": lambda i=i, j=j: slow_distance(heads, i, j),
                "relative": lambda i=i, j=j: relative_positions(heads)[i, j],
                "depth": lambda depth=depth: cosine(*map(wave, depth)),
                "path": lambda i=i, j=j: cosine(*(np.array(slow_path(heads, k, 0.7)) for k in (i, j))),
            }[encoding]()
            assert shown.in_row[i, j] == pytest.approx(row, abs=1e-9)
            assert shown.in_tree[i, j] == pytest.approx(tree, abs=1e-9, nan_ok=True)
    assert np.isnan(shown.in_tree[heads.index(-1)]).all() == (encoding == "path")


def test_that_ranks_are_shared_and_constants_have_no_correlation() -> None:
    assert rank_correlation(np.array([1.0, 2, 2, 5]), np.array([10.0, 20, 20, 21])) == pytest.approx(1.0)
    assert rank_correlation(np.array([1.0, 2, 3]), np.array([3.0, 2, 1])) == pytest.approx(-1.0)
    assert np.isnan(rank_correlation(np.ones(3), np.arange(3.0)))
    assert np.isnan(cosines(np.zeros((2, 3)))).all()


def test_that_the_sample_opens_with_words_far_apart_and_one_edge() -> None:
    shown = look_at_tree(TreeChoice())
    assert "“cat” and its head “slept” stand 9 words apart, but one edge" in shown.words.sentence
    assert len(read_sentences("")) == 4


def test_that_a_file_is_read_and_the_last_sentence_stands_for_those_after_it(tmp_path: Path) -> None:
    path = tmp_path / "my trees.conllu"
    path.write_text(conllu([-1], [1, -1, 1], list(range(-1, MOST_WORDS))), encoding="utf-8")
    figure = at.lab("tree positions", file=str(path), sentence=7)
    assert figure.spec.cells[1].rows == ("w1", "w2", "w3")  # the third sentence is too long
    assert len(read_sentences(str(path))) == 2
    alone = look_at_tree(TreeChoice(file=str(path), sentence=1))
    assert "one word" in alone.words.sentence
    path.write_text(conllu(*[[-1]] * (MOST_TREES + 5)), encoding="utf-8")
    assert TreePositions().allows(TreeChoice(file=str(path)))  # read anew
    assert len(read_sentences(str(path))) == MOST_TREES


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (conllu([-1, -1]), "Sentence 1 of .* has 2 roots"),
        (conllu([-1], [1, 2, 0, -1]), "Sentence 2 of .* has a circle of heads"),
        (conllu([0]), "has 0 roots"),
        (conllu(list(range(-1, MOST_WORDS))), "has over 60 words"),
        ("no tree at all\n", "Line 1 of .* has 1 columns"),
        ("", "no sentence in it"),
    ],
)
def test_that_what_is_no_tree_is_refused_in_one_sentence(
    tmp_path: Path, capsys, text: str, told: str
) -> None:
    path = tmp_path / "trees.conllu"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=told):
        at.lab("Tree positions", file=str(path))
    assert not TreePositions().allows(TreeChoice(file=str(path)))
    assert main(["lab", "Tree positions", "--set", f"file={path}"]) == 2
    assert capsys.readouterr().err.count("\n") <= 3


def test_that_a_missing_file_and_a_number_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.conllu"):
        at.lab("Tree positions", file=str(tmp_path / "none.conllu"))
    with pytest.raises(UserError, match="the path of a file"):
        at.lab("Tree positions", file=3)


def test_that_a_click_chooses_a_word() -> None:
    lab = TreePositions()
    assert lab.click(lab.example, 1, 4, 0).word == 5
    assert lab.drag(lab.example, 3.4, -1.0, is_start=True).word == 3
    shown = look_at_tree(replace(lab.example, word=99, sentence=2))
    assert shown.word == len(shown.sentence.words) - 1


@pytest.mark.qt
def test_that_the_button_opens_a_file_and_says_what_is_wrong_with_it(qtbot, tmp_path: Path) -> None:
    from attnscope.fields import fields_of
    from attnscope.widgets.labs.lab_view import ControlRow

    good, bad = tmp_path / "good.conllu", tmp_path / "bad.conllu"
    good.write_text(conllu([1, -1]), encoding="utf-8")
    bad.write_text(conllu([0]), encoding="utf-8")
    paths = iter([str(bad), "", str(good)])
    setting = next(one for one in fields_of(TreeChoice()) if one.name == "file")
    row = ControlRow(setting, TreeChoice(), choose_file=lambda _parent, kinds: next(paths))
    qtbot.addWidget(row)
    asked: list[TreeChoice] = []
    row.asked.connect(asked.append)
    row.opener.click()
    assert "0 roots" in row.error.text()
    assert not row.error.isHidden()
    row.opener.click()
    row.opener.click()
    assert [choice.file for choice in asked] == [str(good)]
    row.show_choice(asked[0])
    assert row.error.isHidden()
    assert row.field.text() == str(good)
    row.field.setText("nowhere.conllu")
    row.field.editingFinished.emit()
    assert "nowhere.conllu" in row.error.text()
    assert len(asked) == 1
