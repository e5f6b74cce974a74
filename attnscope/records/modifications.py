"""Modifications of the Transformer, trained beside the unmodified one, with the published results of each.

| field | meaning |
|-------|---------|
| early | log perplexity of held-out text after 65,536 steps (Narang et al. 2021, table 1) |
| final | the same after 524,288 steps; all have 223 million parameters where nothing is shared |
| bleu  | English to German, without pre-training: the same table, or as `source` says |

Their unmodified model has norms before, ReLU, shared embeddings and relative positions as T5's; so has ours.

A row is added here; lab, training, command line and help read the list.
"""

from dataclasses import dataclass
from typing import Literal, get_args

Group = Literal["activation", "norm", "position", "sharing"]
GROUPS: tuple[Group, ...] = get_args(Group)
BASE = "vanilla"
NARANG = "Narang et al. 2021, table 1"
VASWANI = "Vaswani et al. 2017, table 3 (base, E)"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedScores:
    """A paper's scores for a modification, None if it gives none."""

    source: str = NARANG
    early: float | None = None
    final: float | None = None
    bleu: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Modification:
    """One row: its name and title, its group, and the keys of [model] that it changes."""

    name: str
    title: str
    groups: tuple[Group, ...]
    changes: tuple[tuple[str, bool | int | str], ...] = ()
    published: PublishedScores | None = None


def _gated(d_ff: int) -> int:
    """The inner width of a gated feed-forward with as many weights as one of width d_ff (Shazeer 2020)."""
    return round(2 * d_ff / 3)


D_FF = 192


def _narang(early: float, final: float, bleu: float) -> PublishedScores:
    return PublishedScores(early=early, final=final, bleu=bleu)


def _activation(name: str, title: str, published: PublishedScores) -> Modification:
    changes: tuple[tuple[str, bool | int | str], ...] = (("activation", name),)
    if name.endswith("glu"):
        changes = (*changes, ("d_ff", _gated(D_FF)))
    return Modification(name=name, title=title, groups=("activation",), changes=changes, published=published)


def _position(name: str, title: str, published: PublishedScores | None = None) -> Modification:
    return Modification(
        name=name, title=title, groups=("position",), changes=(("position", name),), published=published
    )


MODIFICATIONS: dict[str, Modification] = {
    one.name: one
    for one in (
        Modification(name=BASE, title="vanilla", groups=GROUPS, published=_narang(2.182, 1.838, 26.62)),
        _activation("gelu", "GELU", _narang(2.179, 1.838, 26.47)),
        _activation("swish", "Swish", _narang(2.186, 1.847, 26.75)),
        _activation("glu", "GLU", _narang(2.174, 1.814, 27.12)),
        _activation("geglu", "GeGLU", _narang(2.130, 1.792, 26.87)),
        _activation("reglu", "ReGLU", _narang(2.145, 1.803, 27.02)),
        _activation("swiglu", "SwiGLU", _narang(2.127, 1.789, 27.02)),
        Modification(
            name="rms",
            title="RMS norm",
            groups=("norm",),
            changes=(("norm", "rms"),),
            published=_narang(2.167, 1.821, 27.14),
        ),
        Modification(name="post", title="norm after", groups=("norm",), changes=(("norm_place", "post"),)),
        Modification(name="no-norm", title="no norms", groups=("norm",), changes=(("norm", "none"),)),
        _position("sinusoidal", "sinusoidal", PublishedScores(source=VASWANI, bleu=25.8)),
        _position("learned", "learned", PublishedScores(source=VASWANI, bleu=25.7)),
        _position("shaw", "Shaw"),
        _position("rotary", "rotary"),
        _position("alibi", "ALiBi"),
        _position("none", "no positions"),
        Modification(
            name="shared",
            title="blocks shared",
            groups=("sharing",),
            changes=(("shared_layers", True),),
            published=_narang(2.497, 2.164, 25.48),
        ),
        Modification(
            name="untied",
            title="output untied",
            groups=("sharing",),
            changes=(("tie_embeddings", False),),
            published=_narang(2.192, 1.840, 26.49),
        ),
        Modification(name="one-kv", title="one key head", groups=("sharing",), changes=(("n_kv_heads", 1),)),
    )
}
"""By name; the unmodified one, of which every group has a row, first."""


def of_group(group: Group) -> tuple[Modification, ...]:
    """The rows of a group, the unmodified one first."""
    return tuple(one for one in MODIFICATIONS.values() if group in one.groups)
