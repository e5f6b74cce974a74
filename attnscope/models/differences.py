"""Model folders that hold only what differs from a model that comes with the program.

config.json         "base": {"name": "stories", "sha256": "…", "scale": 4.0, "whole_sha256": "…"}
model.safetensors   NAME                            stands in the place of the base's tensor, or is one more
                    NAME.low_rank_a, .low_rank_b    what makes W + s · B A of the base's W (Hu et al. 2021,
                                                    section 4.1)

| symbol | meaning                                             | shape         |
|--------|-----------------------------------------------------|---------------|
| W      | a matrix of the base                                | [n_out, n_in] |
| A      | what a low-rank change reads                        | [rank, n_in]  |
| B      | what it writes                                      | [n_out, rank] |
| s      | `scale`, α / r there                                | number        |

`sha256` is of the base's weights file, `whole_sha256` of all tensors as they were before they were taken
apart: a model that is opened is that one, bit for bit, or it is refused.
"""

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from attnscope.errors import LoadError
from attnscope.models.weights import WEIGHTS, refuse_whole_numbers
from attnscope.paths import resources_folder
from attnscope.strict_json import as_object
from attnscope.trace.tensor_file import read_tensors

_A, _B = ".low_rank_a", ".low_rank_b"


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """What a model folder says of the model that it differs from."""

    name: str
    sha256: str
    whole_sha256: str
    scale: float = 1.0

    @classmethod
    def of(cls, value: object, where: str) -> "Base":
        """What config.json says; raises LoadError."""
        values = as_object(value, what=f"{where}, base", kind="config")
        texts = [values.get(key) for key in ("name", "sha256", "whole_sha256")]
        scale = values.get("scale", 1.0)
        if (
            not all(isinstance(text, str) for text in texts)
            or not isinstance(scale, int | float)
            or not math.isfinite(scale)
        ):
            raise LoadError(
                f"{where} does not say which model its own is kept as a difference from.",
                kind="config",
                expected='"base" with "name", "sha256", "whole_sha256" and, as a number, "scale"',
                action="Restore config.json from a copy.",
            )
        name, sha256, whole_sha256 = map(str, texts)
        return cls(name=name, sha256=sha256, whole_sha256=whole_sha256, scale=float(scale))

    def to_dict(self) -> dict[str, object]:
        """As config.json holds it."""
        return {
            "name": self.name,
            "sha256": self.sha256,
            "scale": self.scale,
            "whole_sha256": self.whole_sha256,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LowRankChanges:
    """A and B of each matrix that was changed so, by its name."""

    scale: float = 1.0
    factors: Mapping[str, tuple[Tensor, Tensor]] = field(default_factory=dict)


NO_CHANGES = LowRankChanges()
_NONE = torch.empty(0, 0)


def low_rank_sum(weight: Tensor, a: Tensor, b: Tensor, scale: float) -> Tensor:
    """W + s · B A, added up in one order, so that every computer finds the same bits."""
    change = torch.zeros_like(weight)
    for row, column in zip(a, b.T, strict=True):
        change += column[:, None] * row
    return weight + scale * change


def take_apart(
    name: str, weights: Mapping[str, Tensor], changes: LowRankChanges = NO_CHANGES
) -> tuple[Base, dict[str, Tensor]]:
    """What to keep of some weights beside the model `name`: the tensors that differ from its own.

    A matrix is kept as A and B where these give its very bits. Raises LoadError for a model that does not
    come with the program.
    """
    of_base, sha256 = _base_tensors(name, f"A model cannot be kept as a difference from {name!r}")
    kept: dict[str, Tensor] = {}
    for key, weight in weights.items():
        own, before = weight.detach().cpu().float(), of_base.get(key)
        if before is not None and _are_alike(before, own):
            continue
        a, b = (factor.detach().cpu() for factor in changes.factors.get(key, (_NONE, _NONE)))
        if before is not None and _are_alike(low_rank_sum(before, a, b, changes.scale), own):
            kept |= {key + _A: a, key + _B: b}
        else:
            kept[key] = own
    whole = _digest({key: weight.detach().cpu().float() for key, weight in weights.items()})
    return Base(name=name, sha256=sha256, scale=changes.scale, whole_sha256=whole), kept


def put_together(
    base: Base, kept: Mapping[str, Tensor], wanted: Iterable[str], folder: Path
) -> dict[str, Tensor]:
    """The tensors that `take_apart` was given; `wanted` are the names that the model's own can have.

    Raises LoadError when the base is not here or another, or when the tensors are others.
    """
    refuse_whole_numbers(kept, folder / WEIGHTS, action="Restore the model folder from a copy.")
    of_base, sha256 = _base_tensors(
        base.name, f"The model in {folder} is kept as what differs from the model {base.name[:80]!r}"
    )
    if sha256 != base.sha256:
        raise LoadError(
            f"The model in {folder} is kept as what differs from the model {base.name}, which has changed: "
            f"its weights have the SHA-256 {sha256[:12]}….",
            kind="base",
            expected=f"{base.sha256[:12]}…",
            action="Open it with the version of AttnScope that saved it, or train it again.",
        )
    names = frozenset(wanted)
    tensors = {name: tensor for name, tensor in of_base.items() if name in names}
    tensors |= {name: tensor for name, tensor in kept.items() if not name.endswith((_A, _B))}
    for name in sorted({name.removesuffix(_A).removesuffix(_B) for name in kept if name.endswith((_A, _B))}):
        tensors[name] = _changed(name, of_base.get(name), kept, base.scale, folder)
    if tensors.keys() == names and _digest(tensors) != base.whole_sha256:
        raise LoadError(
            f"The weights in {folder / WEIGHTS}, put together with those of the model {base.name}, are not "
            "those that were saved.",
            kind="base",
            expected=f"SHA-256 {base.whole_sha256[:12]}… of all tensors",
            action="Restore the model folder from a copy.",
        )
    return tensors


def _changed(
    name: str, weight: Tensor | None, kept: Mapping[str, Tensor], scale: float, folder: Path
) -> Tensor:
    a, b = kept.get(name + _A), kept.get(name + _B)
    fits = (
        weight is not None
        and a is not None
        and b is not None
        and (a.ndim, b.ndim, weight.ndim) == (2, 2, 2)
        and (b.shape[0], a.shape[1]) == tuple(weight.shape)
        and a.shape[0] == b.shape[1]
    )
    if not fits or weight is None or a is None or b is None:
        sizes = [f"{what} {_size(tensor)}" for what, tensor in (("W", weight), ("A", a), ("B", b))]
        raise LoadError(
            f"The low-rank change of {name[:80]!r} in {folder / WEIGHTS} does not fit its matrix: "
            f"{', '.join(sizes)}.",
            kind="keys",
            expected="W [n_out, n_in] of the base, A [rank, n_in] and B [n_out, rank]",
            action="Restore the model folder from a copy.",
        )
    return low_rank_sum(weight, a, b, scale)


def _size(tensor: Tensor | None) -> str:
    return "is missing" if tensor is None else f"is {list(tensor.shape)}"


def _base_tensors(name: str, what: str) -> tuple[dict[str, Tensor], str]:
    """The tensors of a model that comes with the program, in float32, and the SHA-256 of its file."""
    folder = resources_folder() / "models"
    names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    if name not in names:
        raise LoadError(
            f"{what}, which does not come with this program.",
            kind="base",
            expected=f"one of {', '.join(names) or 'none, since none is installed'}",
            action="Use an installation of AttnScope that has it.",
        )
    file = read_tensors(folder / name / WEIGHTS)
    return {key: tensor.float() for key, tensor in file.tensors.items()}, file.sha256()


def _are_alike(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors of float32 have the same bits, those of −0 and NaN too."""
    return torch.equal(one.contiguous().view(torch.int32), other.contiguous().view(torch.int32))


def _digest(tensors: Mapping[str, Tensor]) -> str:
    """The SHA-256 of tensors, with their names, types and sizes."""
    found = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        found.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        found.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()
