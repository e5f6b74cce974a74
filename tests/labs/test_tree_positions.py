"""Tree positions against slow float64 versions on random trees, and what files may be opened."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import attnscope as at
from attnscope.cli.main import main
from attnscope.counting import format_number
from attnscope.errors import UserError
from attnscope.fields import fields_of
from attnscope.labs import LABS

LAB = LABS["Tree positions"]
D_MODEL, BASE = 64, 10000.0
MOST_TREES, MOST_WORDS = 200, 60
ENCODINGS = next(field for field in fields_of(LAB.example) if field.name == "encoding").options


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


def look(folder: Path, heads: list[int], **settings: object):
    """What the lab shows of one sentence of a file."""
    path = folder / "trees.conllu"
    path.write_text(conllu(heads), encoding="utf-8")
    choice = replace(LAB.example, file=str(path), sentence=1, **settings)
    assert LAB.allows(choice)  # which reads the file
    return LAB.resolve(choice)


def cosine(a, b) -> float:
    a, b = np.array(a), np.array(b)
    size = np.sqrt(a @ a) * np.sqrt(b @ b)
    return float(a @ b / size) if size else float("nan")


@pytest.mark.parametrize("heads", HEADS, ids=len)
def test_that_distances_depths_and_paths_equal_slow_ones(tmp_path: Path, heads: list[int]) -> None:
    n, root = len(heads), heads.index(-1)
    shown = look(tmp_path, heads, encoding="distance")
    for i in range(n):
        assert shown.depths[i] == slow_distance(heads, root, i)
        for j in range(n):
            assert shown.in_tree[i, j] == slow_distance(heads, i, j)
    for decay in (0.1, 0.7, 0.95):
        slow = [slow_path(heads, i, decay) for i in range(n)]
        expected = [[cosine(a, b) for b in slow] for a in slow]
        found = look(tmp_path, heads, encoding="path", decay=decay).in_tree
        np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("heads", HEADS, ids=len)
def test_that_relative_positions_are_those_of_the_paper(tmp_path: Path, heads: list[int]) -> None:
    shown = look(tmp_path, heads, encoding="relative")
    found, depth = shown.in_tree, [slow_distance(heads, heads.index(-1), i) for i in range(len(heads))]
    for i in range(len(heads)):
        for j in range(len(heads)):
            is_one_branch = slow_distance(heads, i, j) == abs(depth[i] - depth[j])
            expected = depth[i] - depth[j] if is_one_branch else (1 if i > j else -1) * (depth[i] + depth[j])
            assert found[i, j] == expected
    np.testing.assert_array_equal(found, -found.T)


def test_that_the_width_of_paths_and_the_child_of_a_word_are_told(tmp_path: Path) -> None:
    heads = HEADS[3]
    for k in (1, 4, 7):
        told = dict(look(tmp_path, heads, encoding="path", word=k + 1).words.numbers)
        siblings = [i for i, head in enumerate(heads) if head == heads[k]]
        depth = slow_distance(heads, heads.index(-1), k)
        assert told["its depth, child"] == f"{depth}, {siblings.index(k) + 1}"
        widest = max(heads.count(head) for head in heads if head >= 0)
        assert told["path encoding, w × k"].startswith(f"{widest} × ")


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("sentence", [1, 2, 3, 4])
def test_that_maps_hold_what_the_encodings_say(encoding: str, sentence: int) -> None:
    shown = LAB.resolve(replace(LAB.example, encoding=encoding, sentence=sentence))
    heads = list(shown.sentence.heads)
    n = len(heads)

    def wave(t: float) -> np.ndarray:
        angles = [t * BASE ** (-2 * p / D_MODEL) for p in range(D_MODEL // 2)]
        return np.array([f(a) for a in angles for f in (np.sin, np.cos)])

    for i in range(n):
        for j in range(n):
            row = {"distance": abs(i - j), "relative": i - j}.get(encoding, cosine(wave(i), wave(j)))
            depth = [slow_distance(heads, heads.index(-1), k) for k in (i, j)]
            tree = {
                "distance": lambda i=i, j=j: slow_distance(heads, i, j),
                "relative": lambda i=i, j=j, depth=depth: (
                    depth[0] - depth[1]
                    if slow_distance(heads, i, j) == abs(depth[0] - depth[1])
                    else (1 if i > j else -1) * sum(depth)
                ),
                "depth": lambda depth=depth: cosine(*map(wave, depth)),
                "path": lambda i=i, j=j: cosine(*(np.array(slow_path(heads, k, 0.7)) for k in (i, j))),
            }[encoding]()
            assert shown.in_row[i, j] == pytest.approx(row, abs=1e-9)
            assert shown.in_tree[i, j] == pytest.approx(tree, abs=1e-9, nan_ok=True)
    assert np.isnan(shown.in_tree[heads.index(-1)]).all() == (encoding == "path")


def ranked(values: list[float]) -> list[float]:
    """Ranks from 1; equal values share the mean of theirs."""
    ordered = sorted(values)
    return [ordered.index(v) + (ordered.count(v) + 1) / 2 for v in values]


def test_that_the_rank_correlation_of_distances_is_spearmans(tmp_path: Path) -> None:
    for heads in HEADS[2:]:
        pairs = [(i, j) for i in range(len(heads)) for j in range(i)]
        ranks = [
            ranked(values)
            for values in ([i - j for i, j in pairs], [slow_distance(heads, i, j) for i, j in pairs])
        ]
        mean = (len(pairs) + 1) / 2
        over = sum((a - mean) * (b - mean) for a, b in zip(*ranks, strict=True))
        under = np.prod([sum((a - mean) ** 2 for a in one) for one in ranks]) ** 0.5
        told = dict(look(tmp_path, heads).words.numbers)["rank correlation of both distances"]
        assert told == format_number(over / under, 2)
    assert dict(look(tmp_path, [-1, 0]).words.numbers)["rank correlation of both distances"] == "none"
    flat = dict(look(tmp_path, [-1, 0, 0]).words.numbers)["rank correlation of both distances"]
    assert flat != "none"


def choices(choice: object) -> int:
    """How many sentences there are: the last stands for all after it."""
    setting = next(field for field in fields_of(choice) if field.name == "sentence")
    return setting.shown(replace(choice, sentence=MOST_TREES))


def test_that_the_sample_opens_with_words_far_apart_and_one_edge() -> None:
    shown = LAB.resolve(LAB.example)
    assert "“cat” and its head “slept” stand 9 words apart, but one edge" in shown.words.sentence
    assert choices(LAB.example) == 4


def test_that_a_file_is_read_and_the_last_sentence_stands_for_those_after_it(tmp_path: Path) -> None:
    path = tmp_path / "my trees.conllu"
    path.write_text(conllu([-1], [1, -1, 1], list(range(-1, MOST_WORDS))), encoding="utf-8")
    figure = at.lab("tree positions", file=str(path), sentence=7)
    assert figure.spec.cells[1].rows == ("w1", "w2", "w3")  # the third sentence is too long
    assert choices(replace(LAB.example, file=str(path))) == 2
    alone = LAB.resolve(replace(LAB.example, file=str(path), sentence=1))
    assert "one word" in alone.words.sentence
    path.write_text(conllu(*[[-1]] * (MOST_TREES + 5)), encoding="utf-8")
    assert LAB.allows(replace(LAB.example, file=str(path)))  # read anew
    assert choices(replace(LAB.example, file=str(path))) == MOST_TREES


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
    assert not LAB.allows(replace(LAB.example, file=str(path)))
    assert main(["lab", "Tree positions", "--set", f"file={path}"]) == 2
    assert capsys.readouterr().err.count("\n") <= 3


def test_that_a_missing_file_and_a_number_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.conllu"):
        at.lab("Tree positions", file=str(tmp_path / "none.conllu"))
    with pytest.raises(UserError, match="the path of a file"):
        at.lab("Tree positions", file=3)


def test_that_a_click_chooses_a_word() -> None:
    lab = LAB
    assert lab.click(lab.example, 1, 4, 0).word == 5
    assert lab.drag(lab.example, 3.4, -1.0, is_start=True).word == 3
    shown = LAB.resolve(replace(lab.example, word=99, sentence=2))
    assert shown.word == len(shown.sentence.words) - 1


@pytest.mark.qt
def test_that_the_button_opens_a_file_and_says_what_is_wrong_with_it(qtbot, tmp_path: Path) -> None:
    from attnscope.widgets.labs import ControlRow

    good, bad = tmp_path / "good.conllu", tmp_path / "bad.conllu"
    good.write_text(conllu([1, -1]), encoding="utf-8")
    bad.write_text(conllu([0]), encoding="utf-8")
    paths = iter([str(bad), "", str(good)])
    setting = next(one for one in fields_of(LAB.example) if one.name == "file")
    row = ControlRow(setting, LAB.example, choose_file=lambda _parent, kinds: next(paths))
    qtbot.addWidget(row)
    asked: list[object] = []
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
