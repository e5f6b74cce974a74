"""Pictures: every kind of PNG that is read, the pixels a model gets, and one token for each patch."""

import json
from pathlib import Path

import numpy as np
import pytest
from hf_folders import png_bytes, save_folder, save_picture
from numpy.typing import NDArray
from PIL import Image

from attnscope.cli.main import main
from attnscope.errors import LoadError, UserError
from attnscope.models import load, patch_tokens
from attnscope.models.huggingface import Preparation, prepared_pixels, read_preparation
from attnscope.text import decode_picture, read_picture

RAMP = (
    (np.arange(5)[:, None, None] * 53 + np.arange(7)[None, :, None] * 31 + np.arange(4) * 67) % 256
).astype(np.uint8)


def filtered(pixels: NDArray[np.uint8], kind: int) -> bytes:
    """Lines as the PNG standard filters them, byte by byte (section 9.2), slow and obvious."""
    n = pixels.shape[2]
    lines = pixels.reshape(len(pixels), -1).astype(int)
    out = []
    for y, line in enumerate(lines):
        above = lines[y - 1] if y else line * 0
        row = []
        for i, value in enumerate(line):
            a, b, c = (line[i - n] if i >= n else 0), above[i], (above[i - n] if i >= n else 0)
            nearest = min((abs(b - c), 0, a), (abs(a - c), 1, b), (abs(a + b - 2 * c), 2, c))[2]
            row.append((value - (0, a, b, (a + b) // 2, nearest)[kind]) % 256)
        out.append(bytes([kind, *row]))
    return b"".join(out)


@pytest.mark.parametrize("kind", range(5))
@pytest.mark.parametrize(("colour", "n_channels"), [(0, 1), (2, 3), (4, 2), (6, 4)])
def test_that_every_filter_and_colour_is_read(kind: int, colour: int, n_channels: int) -> None:
    pixels = np.ascontiguousarray(RAMP[..., :n_channels])
    read = decode_picture(png_bytes((7, 5, 8, colour, 0, 0, 0), filtered(pixels, kind)), "x")
    expected = pixels[..., :3] if n_channels > 2 else np.repeat(pixels[..., :1], 3, axis=2)
    assert (read == expected).all()


def test_that_a_palette_is_looked_up_and_must_be_long_enough() -> None:
    raw = b"\0\0\1\2\0\2\1\0"
    read = decode_picture(png_bytes((3, 2, 8, 3, 0, 0, 0), raw, bytes(range(9))), "x")
    assert read[0].tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    with pytest.raises(LoadError, match="palette"):
        decode_picture(png_bytes((3, 2, 8, 3, 0, 0, 0), raw, bytes(range(6))), "x")


@pytest.mark.parametrize(
    "data",
    [
        png_bytes((7, 5, 8, 2, 0, 0, 0), b"\0" * 20),
        png_bytes((100_000, 100_000, 8, 2, 0, 0, 0), b"\0"),
        png_bytes((7, 5, 8, 2, 0, 0, 0), b"\x09" * 110),
        png_bytes((7, 5, 8, 2, 0, 0, 0), filtered(RAMP[..., :3], 0))[:60],
        png_bytes((9_000, 12_000, 8, 0, 0, 0, 0), b"\0"),
        png_bytes((9_000, 6_000, 8, 0, 0, 0, 0), b"\0"),
        png_bytes((0, 5, 8, 2, 0, 0, 0), b"\0" * 20),
        png_bytes((1, 1, 8, 2, 0, 0, 0), b"\0" * 4_000_000)[:40],
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
        b"",
    ],
)
def test_that_a_damaged_or_huge_picture_is_one_load_error(data: bytes) -> None:
    with pytest.raises(LoadError, match=r"^x cannot be read as a picture: [^<]*\. Expected: a PNG, JPEG"):
        decode_picture(data, "x")


@pytest.mark.parametrize("n_kept", range(0, 60, 3))
def test_that_a_picture_cut_anywhere_or_bent_anywhere_is_read_or_one_load_error(n_kept: int) -> None:
    whole = png_bytes((7, 5, 8, 2, 0, 0, 0), filtered(RAMP[..., :3], 4))
    with pytest.raises(LoadError):
        decode_picture(whole[:n_kept], "x")
    bent = bytearray(whole)
    bent[n_kept] ^= 0xFF
    try:
        assert decode_picture(bytes(bent), "x").shape[2] == 3
    except LoadError:
        pass


def test_that_sixteen_bits_of_a_colour_are_read_by_their_upper_eight() -> None:
    grey = decode_picture(png_bytes((3, 1, 16, 0, 0, 0, 0), b"\0\0\0\x80\1\xff\xff"), "x")
    assert grey.tolist() == [[[0, 0, 0], [128, 128, 128], [255, 255, 255]]]
    colour = decode_picture(png_bytes((1, 1, 16, 2, 0, 0, 0), b"\0\0\1\x80\2\xff\xff"), "x")
    assert colour.tolist() == [[[0, 128, 255]]]


def test_that_a_picture_of_32_bit_numbers_is_refused_for_its_numbers(tmp_path: Path) -> None:
    Image.new("F", (2, 2), 0.5).save(tmp_path / "height.tif")
    with pytest.raises(LoadError, match="more than 16 bits"):
        read_picture(str(tmp_path / "height.tif"))


def test_that_pictures_of_other_programs_are_read(tmp_path: Path) -> None:
    for name in ("a.jpg", "a.gif", "a.webp", "a.bmp"):
        Image.new("RGB", (3, 2), (200, 10, 10)).save(tmp_path / name)
        assert read_picture(str(tmp_path / name)).shape == (2, 3, 3)


def test_that_pixels_are_resized_cut_and_normalised_as_the_files_say(tmp_path: Path) -> None:
    values = {"size": {"shortest_edge": 4}, "image_mean": [0.5] * 3, "image_std": [0.25] * 3, "resample": 3}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(values))
    how = read_preparation(tmp_path, (4, 4))
    assert (how.shortest, how.filter, how.deviation) == (4, Image.Resampling.BICUBIC, (0.25,) * 3)
    flat = np.full((8, 12, 3), 255, dtype=np.uint8)
    pixels = prepared_pixels(flat, how)
    assert pixels.shape == (1, 3, 4, 4)
    assert pixels.unique().tolist() == pytest.approx([2.0])
    sides = np.zeros((4, 12, 3), dtype=np.uint8)
    sides[:, 4:8] = 255
    middle = prepared_pixels(sides, Preparation(height=4, width=4, shortest=4, filter=0, mean=(0.0,) * 3))
    assert middle.unique().tolist() == pytest.approx([2.0])
    (tmp_path / "preprocessor_config.json").write_text('{"image_std": [0, 1, 1]}')
    with pytest.raises(LoadError, match="image_std"):
        read_preparation(tmp_path, (4, 4))


@pytest.mark.parametrize(("height", "width"), [(43, 64), (64, 43), (50, 75), (97, 33)])
def test_that_the_longer_side_is_cut_off_to_whole_pixels_as_the_library_does(height: int, width: int) -> None:
    rows, columns = np.arange(height)[:, None, None] / height, np.arange(width)[None, :, None] / width
    picture = (np.sin(5 * rows + np.arange(3)) * np.cos(4 * columns) * 100 + 120).astype(np.uint8)
    how = Preparation(height=16, width=16, shortest=20, filter=3, mean=(0.0,) * 3, deviation=(1.0,) * 3)
    size = (int(20 * width / min(height, width)), int(20 * height / min(height, width)))
    whole = np.asarray(Image.fromarray(picture).resize(size, Image.Resampling.BICUBIC), np.float64)
    top, left = (size[1] - 16) // 2, (size[0] - 16) // 2
    found = prepared_pixels(picture, how)[0].permute(1, 2, 0).numpy() * 255
    assert abs(found - whole[top : top + 16, left : left + 16]).max() < 1e-4


@pytest.mark.parametrize("filter", range(6))
@pytest.mark.parametrize("side", [7, 40])
def test_that_every_filter_of_a_processor_is_the_one_that_pillow_has(
    filter: int, side: int, tmp_path: Path
) -> None:
    picture = np.random.default_rng(0).integers(0, 256, (23, 31, 3), dtype=np.uint8)
    values = {"size": {"height": side, "width": side + 3}, "resample": filter, "do_normalize": False}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(values))
    wanted = (
        np.asarray(Image.fromarray(picture).resize((side + 3, side), Image.Resampling(filter)), np.float32)
        / 255
    )
    found = prepared_pixels(picture, read_preparation(tmp_path, (56, 56)))[0].permute(1, 2, 0).numpy()
    np.testing.assert_allclose(found, wanted, atol=1e-6)


@pytest.mark.parametrize("number", [6, -1, True, 2.0, "lanczos"])
def test_that_a_filter_that_does_not_exist_is_refused(number: object, tmp_path: Path) -> None:
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"resample": number}))
    with pytest.raises(LoadError, match=r"resample has no usable value.*0 to 5"):
        read_preparation(tmp_path, (56, 56))


def test_that_a_picture_that_would_become_too_large_is_refused() -> None:
    line = np.zeros((1, 2_000, 3), dtype=np.uint8)
    with pytest.raises(UserError, match=r"2,000 × 1 pixels.*448,000 × 224"):
        prepared_pixels(line, Preparation(height=224, width=224, shortest=224))


def test_that_patches_are_named_by_row_and_column_after_the_special_tokens() -> None:
    assert patch_tokens("x", (2, 2), 4).pieces == ("0,0", "0,1", "1,0", "1,1")
    assert patch_tokens("x", (1, 2), 4).pieces == ("[CLS]", "[DIST]", "0,0", "0,1")
    assert patch_tokens("x", (1, 1), 5).pieces == ("[CLS]", "[REG0]", "[REG1]", "[REG2]", "0,0")
    assert patch_tokens("x", (9, 9), 3).pieces == ("0", "1", "2")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, (56, 56, None)),
        ({"size": {"height": 42, "width": 28}}, (42, 28, None)),
        ({"size": 28}, (28, 28, None)),
        ({"size": [42, 28]}, (42, 28, None)),
        ({"size": {"shortest_edge": 32}}, (56, 56, 32)),
        ({"size": {"shortest_edge": 32}, "crop_size": {"height": 28, "width": 14}}, (28, 14, 32)),
        ({"size": {"shortest_edge": 32}, "crop_size": 28, "do_center_crop": True}, (28, 28, 32)),
        ({"size": 32, "crop_size": 28, "do_center_crop": True}, (28, 28, 32)),
        ({"size": 32, "crop_size": 28, "do_center_crop": False}, (32, 32, None)),
        ({"size": {"height": 42, "width": 42}, "crop_size": 28, "do_center_crop": True}, (28, 28, None)),
        (
            {
                "size": 42,
                "crop_size": 28,
                "do_center_crop": True,
                "feature_extractor_type": "DeiTFeatureExtractor",
            },
            (28, 28, None),
        ),
        ({"size": {"longest_edge": 32}}, (56, 56, None)),
        ({"size": 28, "do_resize": False}, (56, 56, None)),
    ],
    ids=str,
)
def test_that_the_processors_own_size_wins(values, expected, tmp_path: Path) -> None:
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(values))
    how = read_preparation(tmp_path, (56, 56))
    assert (how.height, how.width, how.shortest) == expected


@pytest.mark.slow
@pytest.mark.parametrize("is_joint", [False, True], ids=["its own file", "the processor's file"])
@pytest.mark.parametrize("name", ["CLIP", "DeiT", "Siglip", "ViT", "Bit"])
def test_that_pixels_are_those_of_the_librarys_own_processor(
    name: str, is_joint: bool, tmp_path: Path
) -> None:
    hf = pytest.importorskip("transformers")
    crop = {"height": 17, "width": 17}
    sizes = {"DeiT": {"size": {"height": 20, "width": 20}, "crop_size": crop}, "Siglip": {"size": crop}}
    shortest = {"size": {"shortest_edge": 18}, "crop_size": crop}
    sizes |= {"ViT": {"size": crop}, "CLIP": shortest, "Bit": shortest}
    processor = getattr(hf, f"{name}ImageProcessorPil")(**sizes[name])
    processor.save_pretrained(tmp_path)
    own = tmp_path / "preprocessor_config.json"
    if is_joint:  # as a processor of pictures and words writes it since version 5 of the library
        joint = {"image_processor": json.loads(own.read_text()), "processor_class": "AnyProcessor"}
        (tmp_path / "processor_config.json").write_text(json.dumps(joint))
        own.unlink()
    rows, columns = np.arange(30)[:, None, None] / 30, np.arange(47)[None, :, None] / 47
    picture = (np.sin(3 * rows + np.arange(3)) * np.cos(2 * columns) * 100 + 120).astype(np.uint8)
    wanted = processor(Image.fromarray(picture), return_tensors="pt")["pixel_values"]
    how = read_preparation(tmp_path, (64, 64))
    found = prepared_pixels(picture, how)
    assert found.shape == wanted.shape == (1, 3, 17, 17)
    grey = how.rescale / min(how.deviation)
    assert (found - wanted).abs().max() < 1e-3 * grey


def test_that_a_part_of_a_joint_processor_wins_and_must_be_an_object(tmp_path: Path) -> None:
    (tmp_path / "preprocessor_config.json").write_text('{"size": 8}')
    joint = tmp_path / "processor_config.json"
    joint.write_text('{"processor_class": "OldProcessor"}')  # as older versions wrote it: without the part
    assert read_preparation(tmp_path, (64, 64)).height == 8
    joint.write_text('{"image_processor": {"size": 16}}')
    assert read_preparation(tmp_path, (64, 64)).height == 16
    joint.write_text('{"image_processor": 3}')
    with pytest.raises(LoadError, match="image_processor, cannot be read: it holds a number"):
        read_preparation(tmp_path, (64, 64))


@pytest.mark.parametrize("key", ["rescale_factor", "image_mean", "image_std"])
@pytest.mark.parametrize("value", ["NaN", "Infinity", "true", '"1"', "{}"])
def test_that_colours_that_are_no_numbers_are_refused(key: str, value: str, tmp_path: Path) -> None:
    (tmp_path / "preprocessor_config.json").write_text(f'{{"{key}": {value}}}')
    with pytest.raises(LoadError, match=key):
        read_preparation(tmp_path, (64, 64))


@pytest.mark.parametrize("side", [0, -3, 10_000_000, 2.5, "224", True])
def test_that_a_size_that_cannot_be_meant_is_refused(side: object, tmp_path: Path) -> None:
    for values in ({"size": {"height": side, "width": 8}}, {"crop_size": side, "do_center_crop": True}):
        (tmp_path / "preprocessor_config.json").write_text(json.dumps(values))
        with pytest.raises(LoadError, match="size"):
            read_preparation(tmp_path, (56, 56))


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (None, "colours from −1 to 1"),
        ({"size": {"shortest_edge": 32}}, "56 × 56 pixels of its middle"),
        ({"size": 32}, ""),
        ({"size": {"shortest_edge": 32}, "crop_size": 28}, ""),
    ],
)
def test_that_what_a_processor_leaves_open_is_told(values, told, tmp_path: Path) -> None:
    hf = pytest.importorskip("transformers")
    config = hf.Dinov2Config(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=56, patch_size=4
    )
    files = {} if values is None else {"preprocessor_config": values}
    save_folder(tmp_path / "dino", hf.Dinov2Model(config).eval(), None, **files)
    note = load(tmp_path / "dino", "cpu").info.note
    assert told in note
    assert ("pictures are read" in note, "keeps the shape of a picture" in note) == (
        values is None,
        "middle" in told,
    )


def test_that_a_model_is_fed_the_crop_of_its_own_processor(tmp_path: Path, capsys) -> None:
    hf = pytest.importorskip("transformers")
    config = hf.Dinov2Config(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=56, patch_size=14
    )
    crop = {"size": {"shortest_edge": 32}, "crop_size": {"height": 28, "width": 28}, "do_center_crop": True}
    save_folder(tmp_path / "dino", hf.Dinov2Model(config).eval(), None, preprocessor_config=crop)
    model = load(tmp_path / "dino", "cpu")
    assert model.info.picture_px == (28, 28)
    assert model.info.max_tokens == 5  # 2 × 2 patches and [CLS], not 4 × 4
    picture = save_picture(tmp_path / "p.png", height=40, width=60)
    assert model.trace(picture).source.pieces == ("[CLS]", "0,0", "0,1", "1,0", "1,1")
    assert main(["info", str(tmp_path / "dino")]) == 0
    assert "a picture, named by its path, read at 28 × 28 pixels" in " ".join(capsys.readouterr().out.split())
    out = tmp_path / "f.svg"
    figure = [
        "figure",
        str(tmp_path / "dino"),
        "--text",
        picture,
        "--view",
        "grid",
        "--caption",
        "-o",
        str(out),
    ]
    assert main(figure) == 0
    assert "read at 28 × 28 pixels" in out.read_text(encoding="utf-8")
