"""PNG pictures without any library: 8-bit grey, RGB, palette and RGBA, not interlaced.

Format: PNG (third edition), W3C 2025, sections 5 (chunks), 9 (filters) and 11 (IHDR, PLTE, IDAT).
Sizes are checked before anything is unpacked.
"""

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from attnscope.errors import LoadError

SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
MAX_PIXELS = 50_000_000


def decode_png(data: bytes, what: str) -> NDArray[np.uint8]:
    """The picture as RGB, uint8 [height, width, 3]; raises LoadError, naming `what`."""
    header, palette, packed = _read_chunks(data, what)
    width, height, depth, colour, compression, filtering, interlace = header
    if width * height > MAX_PIXELS or not width or not height:
        raise _refuse(what, f"it has {width} × {height} pixels", kind="too-large")
    if depth != 8 or interlace or compression or filtering or colour not in _CHANNELS:
        raise _refuse(what, "its kind of PNG is not read here", kind="picture-kind")
    n_channels = _CHANNELS[colour]
    n_bytes = height * (1 + width * n_channels)
    unpacker = zlib.decompressobj()
    try:
        raw = unpacker.decompress(packed, n_bytes)
    except zlib.error as error:
        raise _refuse(what, str(error)) from error
    if len(raw) != n_bytes:
        raise _refuse(what, f"it holds {len(raw)} of {n_bytes} bytes of pixels")
    lines = np.frombuffer(raw, dtype=np.uint8).reshape(height, 1 + width * n_channels)
    pixels = _unfilter(lines, n_channels, what).reshape(height, width, n_channels)
    if colour == 3:
        if int(pixels.max()) >= len(palette):
            raise _refuse(what, "a pixel has a colour that its palette lacks")
        return palette[pixels[..., 0]]
    rgb = pixels[..., :3] if n_channels >= 3 else np.repeat(pixels[..., :1], 3, axis=2)
    return np.ascontiguousarray(rgb)


def _read_chunks(data: bytes, what: str) -> tuple[tuple[int, ...], NDArray[np.uint8], bytes]:
    header: tuple[int, ...] | None = None
    palette = np.zeros((0, 3), dtype=np.uint8)
    packed: list[bytes] = []
    position = len(SIGNATURE)
    while position + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, position)
        kind, body = data[position + 4 : position + 8], data[position + 8 : position + 8 + length]
        if len(body) != length:
            break
        if kind == b"IHDR" and length == 13:
            header = struct.unpack(">IIBBBBB", body)
        elif kind == b"PLTE" and length % 3 == 0:
            palette = np.frombuffer(body, dtype=np.uint8).reshape(-1, 3)
        elif kind == b"IDAT":
            packed.append(body)
        elif kind == b"IEND":
            break
        position += 12 + length
    if header is None or not packed:
        raise _refuse(what, "it is cut short")
    return header, palette, b"".join(packed)


def _unfilter(lines: NDArray[np.uint8], n_channels: int, what: str) -> NDArray[np.uint8]:
    """Undo the five filters, line by line (section 9.2); sums are modulo 256."""
    kinds, filtered = lines[:, 0], lines[:, 1:]
    pixels = np.zeros_like(filtered)
    above = np.zeros(filtered.shape[1], dtype=np.uint8)
    for row, kind in enumerate(kinds.tolist()):
        line = filtered[row].copy()
        if kind == 1:
            line = np.cumsum(line.reshape(-1, n_channels), axis=0, dtype=np.uint8).reshape(-1)
        elif kind == 2:
            line += above
        elif kind in (3, 4):
            _undo_by_neighbours(line, above, n_channels, is_paeth=kind == 4)
        elif kind:
            raise _refuse(what, f"a line has the unknown filter {kind}")
        pixels[row] = above = line
    return pixels


def _undo_by_neighbours(
    line: NDArray[np.uint8], above: NDArray[np.uint8], n_channels: int, *, is_paeth: bool
) -> None:
    """Filters 3 (average) and 4 (Paeth), in place: each byte needs the one to its left."""
    values, up = line.tolist(), above.tolist()
    for i, value in enumerate(values):
        left = values[i - n_channels] if i >= n_channels else 0
        if not is_paeth:
            values[i] = (value + (left + up[i]) // 2) & 255
            continue
        corner = up[i - n_channels] if i >= n_channels else 0
        guess = left + up[i] - corner
        distances = (abs(guess - left), abs(guess - up[i]), abs(guess - corner))
        values[i] = (value + (left, up[i], corner)[distances.index(min(distances))]) & 255
    line[:] = values


def _refuse(what: str, reason: str, *, kind: str = "picture") -> LoadError:
    return LoadError(
        f"{what} cannot be read as a picture: {reason}.",
        kind=kind,
        expected="a PNG picture with 8 bits for each colour",
        action="Save it as an ordinary PNG, or install Pillow with: pip install 'attnscope[hf]'",
    )
