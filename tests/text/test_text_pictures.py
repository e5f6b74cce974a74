"""Pictures by name: drawn ones against a slow drawing, files for numpy, folders, and errors."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from attnscope.errors import LoadError, UserError
from attnscope.shapes import DRAWN_KINDS, RANGES, SIDE, WORDS, drawn_picture, is_name
from attnscope.text import fitted_pixels, read_labelled_pictures, read_picture
from attnscope.text.tasks import make_task

RAMP = np.arange(5 * 4 * 6, dtype=np.uint8).reshape(5, 4, 6)
WORDS_OF_RAMP = np.array(["up", "down", "up", "up", "down"])


def _file(folder: Path, **arrays: Any) -> Path:
    path = folder / "some.npz"
    np.savez(path, **arrays)
    return path


def _reach(kind: str, angle: float) -> float:
    """How far a shape of radius 1 reaches in a direction, its first corner to the right."""
    n = {"triangle": 3, "square": 4}.get(kind)
    if n is not None:
        step = 2 * math.pi / n
        return math.cos(step / 2) / math.cos(angle % step - step / 2)
    if kind == "star":
        return 0.45 + 0.55 * abs(1 - 2 * ((angle * 5 / (2 * math.pi)) % 1))
    return 1.0


@pytest.mark.parametrize("kind", DRAWN_KINDS)
def test_that_a_shape_is_dark_where_its_outline_reaches_and_nowhere_else(kind: str) -> None:
    pixels, smaller = (drawn_picture(f"{kind} x14 y17 r{r} t10 s3").astype(int) for r in (11, 8))
    n_inside = 0
    for row in range(SIDE):
        for column in range(SIDE):
            distance = math.hypot(column - 14, row - 17)
            angle = (math.atan2(row - 17, column - 14) - math.radians(10)) % (2 * math.pi)
            near = [11 * _reach(kind, angle + turn / 20) for turn in range(-4, 5)]
            if distance < min(near) - 1.0:
                assert pixels[row, column] < 110
                n_inside += 1
            if distance > max(near) + 1.0:
                assert pixels[row, column] == smaller[row, column], "only the shape has another size"
    assert n_inside > 40


def test_that_a_name_gives_the_same_picture_in_any_order_and_each_word_another() -> None:
    usual = drawn_picture("star")
    spelt = " ".join(f"{letter}{usual_value}" for letter, (*_, usual_value) in RANGES.items())
    assert (drawn_picture(f"star {spelt}") == usual).all()
    assert (drawn_picture("star s4 x12") == drawn_picture("star x12 s4")).all()
    seen = {drawn_picture(f"triangle {word}").tobytes() for word in WORDS if word not in DRAWN_KINDS}
    assert len(seen) >= len(WORDS) - len(DRAWN_KINDS) - len(RANGES)
    assert is_name("  star x3")
    assert not any(map(is_name, ("", "stars", "a star")))


@pytest.mark.parametrize("name", ["star x99", "star x12 hello", "star circle", "star t3", "star x-1"])
def test_that_an_unknown_word_of_a_name_is_told(name: str) -> None:
    with pytest.raises(UserError, match=r"is no picture: it has the word"):
        read_picture(name)
    with pytest.raises(ValueError, match="begins with"):
        drawn_picture("moon x12")


def test_that_the_names_of_the_task_are_pictures_and_begin_with_their_labels() -> None:
    task = make_task("drawn-shapes")
    for example in task.examples(40, seed=3):
        assert read_picture(example.source).shape == (SIDE, SIDE, 3)
        assert example.source.startswith(example.label)
    assert task.labels == tuple(sorted(DRAWN_KINDS))


def test_that_a_picture_of_a_file_is_read_by_its_number(tmp_path: Path) -> None:
    path = _file(tmp_path, pictures=RAMP)
    assert (read_picture(f"{path}#3") == RAMP[3][..., None]).all()
    assert read_picture(f'"{path}#3"').shape == (4, 6, 3)
    colours = RAMP.reshape(5, 2, 4, 3)
    np.savez(path, pictures=colours)
    assert (read_picture(f"{path}#4") == colours[4]).all()
    with pytest.raises(LoadError, match=r"has 5 pictures, and none of number 5"):
        read_picture(f"{path}#5")
    with pytest.raises(UserError, match="There is no picture"):
        read_picture(f"{tmp_path / 'other.npz'}#0")


def test_that_words_and_numbers_are_labels(tmp_path: Path) -> None:
    read = read_labelled_pictures(_file(tmp_path, pictures=RAMP, labels=WORDS_OF_RAMP))
    assert read.labels == ("up", "down", "up", "up", "down")
    assert (read.pixels[..., 0] == RAMP).all()
    numbers = np.array([0, 11, 2, 0, 1])
    assert read_labelled_pictures(_file(tmp_path, pictures=RAMP, labels=numbers)).labels == (
        "00",
        "11",
        "02",
        "00",
        "01",
    )
    names = np.array(list("abcdefghijkl"))
    named = read_labelled_pictures(_file(tmp_path, pictures=RAMP, labels=numbers, names=names))
    assert named.labels == ("a", "l", "c", "a", "b")


@pytest.mark.parametrize(
    ("arrays", "found"),
    [
        ({"pictures": RAMP.astype(np.float32)}, "pictures of shape .*float32"),
        ({"pictures": RAMP.astype(np.int64)}, "pictures of shape .*int64"),
        ({"pictures": RAMP[0]}, r"pictures of shape \[4, 6\]"),
        ({"pictures": RAMP.reshape(5, 4, 3, 2)}, r"pictures of shape \[5, 4, 3, 2\]"),
        ({"pictures": RAMP[:, :0]}, r"pictures of shape \[5, 0, 6\]"),
        ({"pictures": RAMP[:1], "labels": WORDS_OF_RAMP[:1]}, r"pictures of shape \[1, 4, 6\]"),
        ({"labels": WORDS_OF_RAMP[:4]}, r"labels of shape \[4\]"),
        ({"labels": np.zeros(5)}, r"labels of shape \[5\], float64"),
        ({"labels": np.array([0, 1, 2, 3, -1])}, "labels from -1 to 3"),
        ({"labels": np.array([0, 1, 2, 3, 1]), "names": np.array(["a", "b", "c"])}, "labels from 0 to 3"),
        ({"labels": np.array([0, 1, 1, 0, 1]), "names": np.array(["a", "a"])}, "names of shape"),
        ({"labels": np.array(["up", "", "up", "up", "up"])}, "has the label ''"),
        ({"labels": np.array(["up"] * 5)}, "only the label 'up'"),
        ({"labels": np.array([None] * 5, dtype=object)}, "cannot be read as arrays"),
    ],
)
def test_that_a_file_with_a_wrong_array_is_refused(
    tmp_path: Path, arrays: dict[str, np.ndarray], found: str
) -> None:
    path = _file(tmp_path, **{"pictures": RAMP, "labels": WORDS_OF_RAMP, **arrays})
    with pytest.raises(LoadError, match=found):
        read_labelled_pictures(path)


def test_that_a_file_without_labels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="has no array labels"):
        read_labelled_pictures(_file(tmp_path, pictures=RAMP))


def _save(pixels: np.ndarray, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def test_that_a_folder_of_folders_is_read_by_its_names(tmp_path: Path) -> None:
    _save(RAMP[0], tmp_path / "dark" / "2.png")
    _save(RAMP[1], tmp_path / "dark" / "1.PNG")
    _save(RAMP[4], tmp_path / "light" / "1.png")
    (tmp_path / "light" / "notes.txt").write_text("no picture")
    _save(RAMP[4], tmp_path / ".hidden" / "1.png")
    read = read_labelled_pictures(tmp_path)
    assert read.labels == ("dark", "dark", "light")
    assert (read.pixels == RAMP[[1, 0, 4]][..., None]).all()
    colour = np.stack([RAMP[2], RAMP[3], RAMP[2]], axis=-1)
    _save(colour, tmp_path / "light" / "2.png")
    read = read_labelled_pictures(tmp_path)
    assert read.pixels.shape == (4, 4, 6, 3)
    assert (read.pixels[3] == colour).all()


def test_that_a_folder_with_other_sizes_or_other_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="0 pictures in 0 folders"):
        read_labelled_pictures(tmp_path)
    _save(RAMP[0], tmp_path / "dark" / "1.png")
    _save(RAMP[1], tmp_path / "dark" / "2.png")
    with pytest.raises(LoadError, match="only the label 'dark'"):
        read_labelled_pictures(tmp_path)
    _save(RAMP[4][:3], tmp_path / "light" / "1.png")
    with pytest.raises(LoadError, match=r"1.png has 3 × 6 px"):
        read_labelled_pictures(tmp_path)
    (tmp_path / "light" / "1.png").write_bytes(b"no picture")
    with pytest.raises(LoadError, match="damaged or not a picture"):
        read_labelled_pictures(tmp_path)


def test_that_greys_are_weighted_and_other_sizes_are_cut_and_resized() -> None:
    colours = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3) * 14
    shares = (0.299, 0.587, 0.114)
    expected = [
        [round(sum(share * int(c) for share, c in zip(shares, pixel, strict=True))) for pixel in row]
        for row in colours
    ]
    assert fitted_pixels(colours, 2, 3, 1)[..., 0].tolist() == expected
    assert fitted_pixels(colours, 2, 3, 3) is colours
    wide = np.zeros((4, 12, 3), dtype=np.uint8)
    wide[:, 4:8] = 200
    assert (fitted_pixels(wide, 4, 4, 1) == 200).all(), "the middle square"
    assert (fitted_pixels(wide[:, 4:8], 8, 8, 1) == 200).all()
