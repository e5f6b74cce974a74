"""Positions in a dependency tree beside positions in the row of words.

    symbol   meaning                                                                        shape
    i, j     words of a sentence, n of them                                                 0 … n − 1
    δ(i)     depth: edges from the root to word i                                           whole number
    d(i, j)  edges of the way from i to j in the tree                                       [n, n]
    r(i, j)  δ(i) − δ(j) where one word is above the other, else ±(δ(i) + δ(j))             [n, n]
    b        which child of its head a word is, 0 … w − 1, from left to right               whole number
    PE(t)    sinusoidal encoding of position t (Vaswani et al. 2017)                        [D_MODEL]
    T(i)     encoding of the path from the root to word i                                   [w·k]

Wang et al. 2019 (section 3): the absolute position of a word is its depth δ, encoded as PE(δ); the
relative one is r, whose first case they give for words on one edge of the tree: here, on one way down from
the root. Shiv & Quirk 2019 (section 3): T(root) = 0; going down to child b pushes the unit vector
e_b in front and drops the last w numbers, T(child) = (e_b, T(head)[:−w]); level m = 0 … k − 1 is then
multiplied by p^m·√(1 − p²)·√(d/2). Here w is the most children of a word, k the depth of this tree and
d = w·k, so nothing is cut off.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnscope.conllu import Tree, read_conllu
from attnscope.counting import fixed, format_number, plural
from attnscope.errors import LoadError
from attnscope.fields import file_line, number, one_of
from attnscope.labs.lab import BLUE, ORANGE, SKY, Lab, LabWords
from attnscope.labs.modifications import rank_correlation
from attnscope.labs.shift_matrix import sinusoidal
from attnscope.paths import resources_folder
from attnscope.records.charts import CellMap, Chart, Series

Numbers = NDArray[np.float64]
Encoding = Literal["distance", "relative", "depth", "path"]
ENCODINGS: dict[Encoding, str] = {
    "distance": "edges between",
    "relative": "relative (Wang)",
    "depth": "depth (Wang)",
    "path": "path (Shiv, Quirk)",
}
D_MODEL, BASE = 64, 10000.0
MOST_TREES, MOST_WORDS = 200, 60
FAR = 3
"""Words further apart than this are counted as far in the text."""
_LONGEST = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """The words of a tree, in reading order, with the head of each (−1: the root) and its relation."""

    words: tuple[str, ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]


@lru_cache(maxsize=8)
def read_sentences(file: str) -> tuple[Sentence, ...]:
    """Sentences that are not too long, from the first MOST_TREES of a CoNLL-U file, or of the sample.

    Raises LoadError. What was read is kept until another file is opened.
    """
    path = Path(file).expanduser() if file else resources_folder() / "samples" / "trees.conllu"
    trees = read_conllu(path, MOST_TREES)
    found = [_sentence_of(t, k, path) for k, t in enumerate(trees, start=1) if len(t.words) <= MOST_WORDS]
    if not found:
        raise LoadError(
            f"Every sentence of {path} has over {MOST_WORDS} words.",
            kind="too-large",
            expected=f"a sentence of at most {MOST_WORDS} words among the first {MOST_TREES}",
            action="Choose another file.",
        )
    return tuple(found)


def open_sentences(file: str) -> tuple[Sentence, ...]:
    """The same, read again."""
    read_sentences.cache_clear()
    return read_sentences(file)


def _sentence_of(tree: Tree, k: int, path: Path) -> Sentence:
    heads = [word.head for word in tree.words]
    n_roots = heads.count(-1)
    if n_roots != 1 or not _reaches_root(heads):
        found = "a circle of heads" if n_roots == 1 else plural(n_roots, "root")
        raise LoadError(
            f"Sentence {k} of {path} has {found}.",
            kind="not-a-tree",
            expected="one word whose head is 0, and heads that lead to it from every word",
            action="Correct column 7 of the sentence or choose another file.",
        )
    return Sentence(
        words=tuple(word.form for word in tree.words),
        heads=tuple(heads),
        relations=tuple(word.relation for word in tree.words),
    )


def _reaches_root(heads: Sequence[int]) -> bool:
    reached = {-1}
    left = set(range(len(heads)))
    while new := {i for i in left if heads[i] in reached}:
        reached |= new
        left -= new
    return not left


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeChoice:
    """The sentence, the encoding, and the selected word."""

    file: str = file_line(
        tip="A CoNLL-U file with dependency trees; empty: the sample sentences",
        kinds="CoNLL-U (*.conllu *.conllu.gz)",
        read=open_sentences,
    )
    sentence: int = number(
        1,
        range(1, MOST_TREES + 1),
        title="sentence",
        tip=f"Which of the first {MOST_TREES} sentences; those of over {MOST_WORDS} words are left out",
        shown=lambda c: min(c.sentence, len(read_sentences(c.file))),
    )
    encoding: Encoding = one_of(
        "distance",
        ENCODINGS,
        title="position",
        tip="What is known of two words: the edges between them, those with a sign, depth or path encoded",
    )
    word: int = number(
        2,
        range(1, MOST_WORDS + 1),
        title="word",
        tip="The word that is compared with all others; click in a map or in a chart",
        shown=lambda c: min(c.word, len(sentence_of(c).words)),
    )
    decay: float = number(
        0.7,
        tuple(k / 20 for k in range(2, 20)),
        title="p",
        tip="Of path encodings: how much less each level further up counts; learned in the paper",
        text=fixed,
        is_used=lambda c: c.encoding == "path",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeShown:
    """The sentence, the depth of each word, and the distances of each pair in row and tree [n, n]."""

    choice: TreeChoice
    sentence: Sentence
    word: int
    depths: Numbers
    in_row: Numbers
    in_tree: Numbers
    words: LabWords


def sentence_of(choice: TreeChoice) -> Sentence:
    """The sentence of a choice, the last one if the file has fewer; raises LoadError."""
    found = read_sentences(choice.file)
    return found[min(choice.sentence, len(found)) - 1]


def look_at_tree(choice: TreeChoice) -> TreeShown:
    """Both kinds of positions of a sentence."""
    sentence = sentence_of(choice)
    n = len(sentence.words)
    word = min(choice.word, n) - 1
    depths, distances = depths_of(sentence.heads), tree_distances(sentence.heads)
    places = np.arange(float(n))
    row_distances = np.abs(places[:, None] - places)
    match choice.encoding:
        case "distance":
            in_row, in_tree = row_distances, distances
        case "relative":
            in_row, in_tree = places[:, None] - places, relative_positions(sentence.heads)
        case "depth":
            table = sinusoidal(max(n, 1), D_MODEL, BASE)
            in_row, in_tree = cosines(table), cosines(table[depths.astype(int)])
        case "path":
            in_row = cosines(sinusoidal(n, D_MODEL, BASE))
            in_tree = cosines(path_table(sentence.heads, choice.decay))
    return TreeShown(
        choice=choice,
        sentence=sentence,
        word=word,
        depths=depths,
        in_row=in_row,
        in_tree=in_tree,
        words=_words(choice, sentence, word, depths, row_distances, distances, in_row, in_tree),
    )


def ways_up(heads: Sequence[int]) -> list[list[int]]:
    """For each word: itself, its head, the head of that, … up to the root."""
    ways = []
    for i in range(len(heads)):
        way = [i]
        while heads[way[-1]] >= 0:
            way.append(heads[way[-1]])
        ways.append(way)
    return ways


def depths_of(heads: Sequence[int]) -> Numbers:
    """δ, [n]."""
    return np.array([len(way) - 1.0 for way in ways_up(heads)])


def tree_distances(heads: Sequence[int]) -> Numbers:
    """d, [n, n]: up from both words to their first common ancestor."""
    ways = ways_up(heads)
    return np.array([[len(set(a) ^ set(b)) for b in ways] for a in ways], np.float64)


def relative_positions(heads: Sequence[int]) -> Numbers:
    """r, [n, n]; for words on different branches the sign says whether i follows j in the text."""
    ways, depths = ways_up(heads), depths_of(heads)
    n = len(heads)
    found = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if i in ways[j] or j in ways[i]:
                found[i, j] = depths[i] - depths[j]
            else:
                found[i, j] = np.sign(i - j) * (depths[i] + depths[j])
    return found


def branches_of(heads: Sequence[int]) -> list[int]:
    """Index of each word among its head's children, b; −1 for the root."""
    seen: dict[int, int] = {}
    found = []
    for head in heads:
        found.append(seen.get(head, 0) if head >= 0 else -1)
        seen[head] = seen.get(head, 0) + 1
    return found


def path_table(heads: Sequence[int], decay: float) -> Numbers:
    """T, [n, w·k] with d = w·k; the last edge of a path comes first."""
    branches, ways = branches_of(heads), ways_up(heads)
    width, depth = max(1, max(branches) + 1), max(1, max(len(way) for way in ways) - 1)
    table = np.zeros((len(heads), depth, width))
    for i, way in enumerate(ways):
        for level, node in enumerate(way[:-1]):
            table[i, level, branches[node]] = 1.0
    size = np.sqrt((1 - decay**2) * width * depth / 2)
    return np.asarray((table * (size * decay ** np.arange(depth))[:, None]).reshape(len(heads), -1))


def cosines(table: Numbers) -> Numbers:
    """The cosine of each two rows, [n, n]; NaN for a row of zeros, which has no direction."""
    lengths = np.linalg.norm(table, axis=1)
    products = lengths[:, None] * lengths
    found = np.full(products.shape, np.nan)
    return np.asarray(np.divide(table @ table.T, products, out=found, where=products > 0))


def _quoted(word: str) -> str:
    """A word in quotation marks, shortened if long."""
    return f"“{word if len(word) <= _LONGEST else word[: _LONGEST - 1] + '…'}”"


def _words(
    choice: TreeChoice,
    sentence: Sentence,
    word: int,
    depths: Numbers,
    row_distances: Numbers,
    distances: Numbers,
    in_row: Numbers,
    in_tree: Numbers,
) -> LabWords:
    n = len(sentence.words)
    pairs = np.triu_indices(n, 1)
    rows, edges = row_distances[pairs], distances[pairs]
    is_edge = edges == 1
    branches = branches_of(sentence.heads)
    head = sentence.heads[word]
    mean_length = format_number(float(rows[is_edge].mean())) if n > 1 else ""
    numbers = (
        ("words, depth of the tree", f"{n}, {depths.max():.0f}"),
        ("mean length of an edge", f"{mean_length} words" if n > 1 else "none"),
        (f"edges over {FAR} words long", f"{int((is_edge & (rows > FAR)).sum())} of {n - 1}"),
        (
            "rank correlation of both distances",
            format_number(rank_correlation(rows, edges), 2) if n > 2 else "none",
        ),
        ("word", _quoted(sentence.words[word])),
        ("its head", _quoted(sentence.words[head]) if head >= 0 else "none: the root"),
        ("its relation", sentence.relations[word][:_LONGEST]),
        ("its depth, child", f"{depths[word]:.0f}, {branches[word] + 1 or 'none'}"),
        *(
            (("path encoding, w × k", f"{max(branches) + 1} × {depths.max():.0f}"),)
            if choice.encoding == "path"
            else ()
        ),
    )
    return LabWords(
        formula=_FORMULAS[choice.encoding],
        numbers=numbers,
        sentence=_sentence(choice, sentence, in_row, in_tree),
    )


_FORMULAS: dict[Encoding, tuple[str, ...]] = {
    "distance": ("row: |i − j|", "tree: d(i, j) edges"),
    "relative": (
        "row: i − j",
        "tree: δ(i) − δ(j) on one branch",
        "else: sign(i − j)·(δ(i) + δ(j))",
    ),
    "depth": ("row: cos(PE(i), PE(j))", "tree: cos(PE(δ(i)), PE(δ(j)))"),
    "path": (
        "row: cos(PE(i), PE(j))",
        "tree: cos(T(i), T(j))",
        "T(child b) = (e_b, T(head)[:−w])",
        "level m: · p^m √(1−p²) √(d/2)",
    ),
}


def _sentence(choice: TreeChoice, sentence: Sentence, in_row: Numbers, in_tree: Numbers) -> str:
    edges = [(abs(i - head), i, head) for i, head in enumerate(sentence.heads) if head >= 0]
    if not edges:
        return "The sentence has one word: there is nothing to compare it with."
    telling = [
        (apart, i, head)
        for apart, i, head in edges
        if sentence.relations[i] != "punct" and not np.isnan(in_tree[i, head])
    ]
    apart, i, head = max(telling or edges, key=lambda edge: (edge[0], -edge[1]))
    pair = f"{_quoted(sentence.words[i])} and its head {_quoted(sentence.words[head])}"
    if choice.encoding in ("distance", "relative"):
        return (
            f"{pair} stand {plural(apart, 'word')} apart, but one edge: for positions in a tree they are "
            "neighbours, however much is put between them. Click a word to see all others from there."
        )
    tree = in_tree[i, head]
    told = "not defined (the root has zeros)" if np.isnan(tree) else format_number(float(tree), 2)
    why = (
        "All words of one depth have the same encoding: the tree alone does not tell them apart, so the "
        "paper adds it to the position in the row."
        if choice.encoding == "depth"
        else "One matrix takes every head to its b-th child, as one takes each sinusoidal position to the "
        "next: alike are words whose last steps down are the same."
    )
    return f"{pair}: cosine {format_number(float(in_row[i, head]), 2)} in the row, {told} in the tree. {why}"


def tree_cells(shown: TreeShown) -> tuple[CellMap, ...]:
    """Distances of each pair in the row and in the tree."""
    names = shown.sentence.words
    is_cosine = shown.choice.encoding in ("depth", "path")
    is_signed = is_cosine or shown.choice.encoding == "relative"
    limit = 1.0 if is_cosine else float(max(1.0, np.abs(shown.in_row).max(), np.abs(shown.in_tree).max()))

    def drawn(title: str, note: str, values: Numbers) -> CellMap:
        return CellMap(
            title=title,
            note=note,
            values=values,
            kind="signed" if is_signed else "weights",
            limit=limit,
            rows=names,
            columns=names,
            row_title="word",
            column_title="word",
            legend=("no direction: zeros",) if np.isnan(values).any() else (),
        )

    what = "cosine" if is_cosine else "words between" if not is_signed else "signed"
    return (
        drawn("In the row", "cosine" if is_cosine else "words apart", shown.in_row),
        drawn("In the tree", what if is_cosine else "edges apart", shown.in_tree),
    )


def tree_charts(shown: TreeShown) -> tuple[Chart, ...]:
    """The tree, and the chosen word against all others."""
    return (_tree(shown), _from_word(shown))


def _tree(shown: TreeShown) -> Chart:
    heads, depths = shown.sentence.heads, shown.depths
    xs, ys = [np.nan], [np.nan]
    for i, head in enumerate(heads):
        if head >= 0:
            xs += [i + 1.0, head + 1.0, np.nan]
            ys += [-depths[i], -depths[head], np.nan]
    places = np.arange(1.0, len(heads) + 1)
    here = np.array([shown.word + 1.0])
    chosen_first = sorted(range(len(heads)), key=lambda i: (i != shown.word, depths[i]))
    return Chart(
        title="Tree",
        x_label="",
        y_label="minus the depth: edges below the root",
        series=(
            Series(name="edges", xs=np.array(xs), ys=np.array(ys), colour=SKY, has_label=False),
            Series(name="words", xs=places, ys=-depths, colour=BLUE, style="points", has_label=False),
            Series(
                name="chosen word",
                xs=here,
                ys=-depths[[shown.word]],
                colour=ORANGE,
                style="points",
                has_label=False,
            ),
        ),
        y_range=(-float(depths.max()) - 1.3, 0.4),
        notes=tuple((i + 1.0, -depths[i] - 0.3, shown.sentence.words[i]) for i in chosen_first),
        x_names=shown.sentence.words,
    )


def _from_word(shown: TreeShown) -> Chart:
    places = np.arange(1.0, len(shown.sentence.words) + 1)
    is_cosine = shown.choice.encoding in ("depth", "path")
    return Chart(
        title=f"From {_quoted(shown.sentence.words[shown.word])}",
        x_label="",
        y_label="cosine with each word" if is_cosine else "to each word",
        series=(
            Series(name="row", xs=places, ys=shown.in_row[shown.word], colour=BLUE, has_points=True),
            Series(name="tree", xs=places, ys=shown.in_tree[shown.word], colour=ORANGE, has_points=True),
        ),
        x_names=shown.sentence.words,
    )


class TreePositions(Lab[TreeChoice, TreeShown]):
    name = "Tree positions"
    group = "Positions"
    order = 6
    shows = "Positions in a dependency tree (CoNLL-U) beside those in the row of words: distance, depth, path"
    source = "Wang et al. 2019, Shiv & Quirk 2019"
    help = """A sentence is also a tree: each word hangs on its head. The left map compares every two words by
    their positions in the row, the right one by their positions in the tree: the edges between them; those
    with a sign, as Wang et al. give them to relative attention; the sinusoidal encoding of the depth, their
    absolute position; or the encoding of the path from the root of Shiv & Quirk, where one matrix takes
    every head to its b-th child. The root has a path of no steps and so a vector of zeros, which is like
    nothing: its cells are empty. Below are the tree, and the word that you click against all others.
    It opens with four sentences; any CoNLL-U file, plain or gzipped, can be opened with the button at *file*,
    of which the first 200 sentences are read; those of over
    60 words are left out. On the command line:
    `attnscope lab "Tree positions" --set file=FILE --set sentence=3`. How attention follows the edges of
    trees is measured on the page [Heads](help:heads).
    """

    example = TreeChoice()
    dragged = (0, 1)
    stretches = (5, 4)
    names_px = 60
    figure_mm = (220.0, 190.0)
    other_page = ("Matrices and similarities →", "positions")

    def resolve(self, choice: TreeChoice) -> TreeShown:
        return look_at_tree(choice)

    def cells(self, shown: TreeShown) -> tuple[CellMap, ...]:
        return tree_cells(shown)

    def charts(self, shown: TreeShown) -> tuple[Chart, ...]:
        return tree_charts(shown)

    def drag(self, choice: TreeChoice, x: float, y: float, *, is_start: bool) -> TreeChoice:
        """The word nearest to the place clicked at."""
        return replace(choice, word=min(max(round(x), 1), MOST_WORDS))

    def click(self, choice: TreeChoice, cells: int, i: int, j: int) -> TreeChoice:
        return replace(choice, word=min(i + 1, MOST_WORDS))
