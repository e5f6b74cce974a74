"""What is left when heads have been removed from a network, whoever wrote the network."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from attnscope.models.network import Network
from attnscope.records.pruning import ModelSize, SiteHeads


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """A smaller network, not yet proved; `write` fills an empty folder with it, and may be called late."""

    network: Network
    sites: tuple[SiteHeads, ...]
    before: ModelSize
    after: ModelSize
    opens_in: str
    write: Callable[[Path], None]
    notes: tuple[str, ...] = ()


def weights_file_bytes(folder: Path) -> int | None:
    """The bytes of the weights in a folder; None when there are none."""
    try:
        sizes = [file.stat().st_size for file in folder.glob("*.safetensors")]
    except OSError:
        return None
    return sum(sizes) if sizes else None


def removal_name(name: str, sites: tuple[SiteHeads, ...]) -> str:
    """A model's name with how many heads of how many it has now."""
    n_left, n_before = sum(site.n_left for site in sites), sum(site.n_before for site in sites)
    return f"{name[:60]}, {n_left} of {n_before} heads"


def removed_heads_card(sites: tuple[SiteHeads, ...], *, made_from: str) -> str:
    """The part of a model's card that says which head was which, in Markdown."""
    lines = ["", "## Removed heads", "", f"Made from {made_from}. Heads are renumbered at each site:", ""]
    for site in sites:
        if list(site.heads) == list(range(site.n_before)):
            continue
        pairs = [f"H{new} was H{old}" for new, old in enumerate(site.heads) if old is not None]
        text = ", ".join(pairs) or "no head is left"
        zeros = f"; {site.n_zero} of zeros" if site.n_zero and pairs else ""
        lines.append(f"- {site.stack} L{site.layer}: {text}{zeros}")
    return "\n".join([*lines, ""])
