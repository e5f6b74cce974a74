"""A trace: the attention of every head on one text, any part of it recomputed on demand.

Nothing quadratic is kept: the weights of any rectangle come from queries, keys and each row's
log-sum-exp (`record.py`). A trace never changes, needs no model, and may be read from any thread.
"""

import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import SupportsIndex

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnscope.counting import html_table, plural
from attnscope.errors import SaveError, UserError, of_wrong_kind
from attnscope.records.maps import HeadMap, SelfCheck, SiteGrid
from attnscope.records.sites import (
    HeadName,
    HeadRef,
    Site,
    SiteName,
    find_site,
    head_named,
    some_sites,
    tokens_of_site,
    written_after,
)
from attnscope.records.tiles import MAX_WHOLE_CELLS, MapTile, Part, is_long
from attnscope.records.tokens import COPYABLE, Token, Tokens
from attnscope.trace.check import merge_proofs
from attnscope.trace.pyramid import (
    MAX_EXACT_CELLS,
    OneHead,
    bytes_of,
    frozen_numbers,
    largest_weight,
    pool_strip,
    sampled_grid,
    site_grid,
    strips,
)
from attnscope.trace.record import Reduction, SiteRecord, TextRecord, pooled_tile, site_weights
from attnscope.trace.store import load_records, save_records

_MOST_TOKENS = 100


class Trace:
    """Every attention head of one model on one text; a batch of one.

    `kept` is all that a file of it holds. `follows` gives what the model writes after the target; it is asked
    for at the first look, since to know it is to wait for the device.
    """

    def __init__(self, kept: TextRecord, *, follows: Callable[[], Token] | None = None) -> None:
        self.sites, self.gates, self.source = kept.sites, kept.gates, kept.source
        self.interventions, self.recorded, self.said = kept.interventions, kept.recorded, kept.said
        self.records = dict(kept.records)
        self._kept, self._follows = kept, follows

    @property
    def kept(self) -> TextRecord:
        """Everything that its file would hold."""
        return replace(self._kept, target=self.target, records=self.records)

    @property
    def target(self) -> Tokens | None:
        """The second text, if there is one, and the text generated after it."""
        if self._follows is not None and self._kept.target is not None:
            target = replace(self._kept.target, following=self._follows())
            self._kept, self._follows = replace(self._kept, target=target), None
        return self._kept.target

    def __repr__(self) -> str:
        """Its contents in one line: `Trace of 9 tokens (1 unknown): encoder 3 layers × 4 heads`."""
        stacks = dict.fromkeys(site.stack for site in self.sites)
        parts = []
        for stack in stacks:
            sites = [site for site in self.sites if site.stack == stack]
            sizes = list(dict.fromkeys(site.n_heads for site in sites))
            heads = plural(sizes[0], "head") if len(sizes) == 1 else f"{'/'.join(map(str, sizes))} heads"
            parts.append(f"{stack} {plural(len(sites), 'layer')} × {heads}")
        read = list(_texts_of(self).values())
        n_tokens = [len(text) for text in read]
        many = f"{' and '.join(map(str, n_tokens))} tokens"
        source = plural(n_tokens[0], "token") if len(n_tokens) == 1 else many
        counts = (
            (sum(text.n_dropped for text in read), "more cut"),
            (sum(text.n_strange for text in read), "unknown"),
            (sum(text.n_copyable for text in read), COPYABLE),
        )
        lost = ", ".join(f"{n:,} {what}" for n, what in counts if n)
        check = self.check()
        wrong = "" if check.is_good else f", {check.badge}"
        return f"Trace of {source}{lost and f' ({lost})'}: {', '.join(parts)}{wrong}"

    def _repr_html_(self) -> str:
        """Its sites with their sizes, its tokens, and whether its weights can be trusted."""
        columns = ["stack", "layer", "heads", "queries × keys", "self-check"]
        rows: list[list[object]] = []
        for site in self.sites:
            record = self.records[site.key]
            size = f"{record.n_queries:,} × {record.n_keys:,}"
            rows.append([site.stack, str(site.layer), site.n_heads, size, self.check(site).badge])
        names = [self.recorded.site_name(site.key) for site in self.sites] if self.recorded else []
        if any(names):
            columns.append("module")
            rows = [[*row, name] for row, name in zip(rows, names, strict=True)]
        read = [
            [what, " ".join(token.label for token in text.tokens[:_MOST_TOKENS])]
            for what, text in _texts_of(self).items()
        ]
        return html_table(columns, rows, title=repr(self)) + html_table([], read)

    @property
    def logits(self) -> NDArray[np.float32]:
        """The model's logits: [n_tokens, vocab_size], for the target if there is one."""
        return self.logits_tensor().cpu().numpy()

    @property
    def has_logits(self) -> bool:
        """Whether the trace holds the model's output; a replayed one may not."""
        return self._kept.logits is not None

    def logits_tensor(self) -> Tensor:
        """The logits on the model's device, float32; raises UserError if they were not kept."""
        if self._kept.logits is None:
            raise UserError(
                "This trace does not hold the model's output.",
                expected="a trace of a text that is not too long, saved with its logits",
                action="Trace the text again, or ask the model to predict.",
            )
        return self._kept.logits

    def site(self, name: SiteName) -> Site:
        """The site called `name`; raises UserError if the model has no such site."""
        if isinstance(name, str):
            raise UserError(
                f"The stack alone names no site: {name!r}.",
                expected=f"a stack and a layer, such as ({name!r}, 0), or a number from 0",
                action=f"Sites of this trace: {', '.join(str(site.key) for site in self.sites[:6])} …",
            )
        if isinstance(name, Site):
            return find_site(self.sites, name.key)
        if isinstance(name, tuple) and len(name) == 2 and isinstance(name[1], SupportsIndex):
            return find_site(self.sites, (name[0], operator.index(name[1])))
        if isinstance(name, SupportsIndex):
            name = operator.index(name)
            if not -len(self.sites) <= name < len(self.sites):
                raise UserError(
                    f"The trace has no site number {name}.",
                    expected=f"0 to {len(self.sites) - 1}",
                    action="Choose a site that exists.",
                )
            return self.sites[name]
        raise UserError(
            f"{str(name)[:60]!r} is not a site.",
            expected=f"a number from 0, or a stack and a layer such as {self.sites[0].key}",
        )

    def tokens(self, site: SiteName) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
        """The tokens of a site's queries (rows) and keys (columns).

        What is not a token (a summary, a sentence, a Linformer slot) is named like one, with a negative id.
        """
        return tokens_of_site(self.site(site), self.source, self.target)

    def weights(self, site: SiteName | HeadName, head: int | None = None) -> NDArray[np.float32]:
        """All weights of one head: [n_queries, n_keys], NaN where the mask forbids.

        The head is named by its site and number, `weights(("cross", 1), 0)`, or by itself, `"cross:L1H0"`.
        """
        if head is None:
            named = head_named(site, self.sites)  # type: ignore[arg-type]
            site, head = named.site_key, named.head
        record, index = self._record(site, head)  # type: ignore[arg-type]
        return _numpy(site_weights(record, slice(index, index + 1))[0])

    def all_weights(self, site: SiteName) -> Tensor:
        """All weights of a site: float32 [n_heads, n_queries, n_keys]; long texts take memory."""
        return site_weights(self.records[self.site(site).key])

    def row(self, site: SiteName, head: int, query: int) -> NDArray[np.float32]:
        """The weights of one `query`, counted from 0, on every key: [n_keys]."""
        record, index = self._record(site, head)
        query = _index(query, record.n_queries, "query")
        return _numpy(site_weights(record, slice(index, index + 1), rows=slice(query, query + 1))[0, 0])

    def column(self, site: SiteName, head: int, key: int) -> NDArray[np.float32]:
        """The weights of every query on one `key`, counted from 0: [n_queries]."""
        record, index = self._record(site, head)
        key = _index(key, record.n_keys, "key")
        return _numpy(site_weights(record, slice(index, index + 1), cols=slice(key, key + 1))[0, :, 0])

    def tile(
        self,
        site: SiteName,
        head: int,
        rows: slice | range,
        cols: slice | range,
        size: tuple[int, int] | None = None,
        reduce: Reduction = "max",
    ) -> NDArray[np.float32]:
        """Some `rows` and columns (`cols`) of one map, reduced to at most `size` (height, width).

        With `reduce` "max" each cell is the maximum, with "mean" the mean over allowed weights, of those it
        stands for; NaN
        where none is allowed. Nothing is ever enlarged; `size` None gives the exact weights.
        """
        record, index = self._record(site, head)
        if reduce not in ("max", "mean"):
            raise UserError(f"Tiles cannot be reduced by {reduce!r}.", expected="'max' or 'mean'")
        row_range, col_range = _part(rows, record.n_queries), _part(cols, record.n_keys)
        if size is not None and not isinstance(size, tuple | list):
            raise of_wrong_kind(size, "the size", "(height, width) in cells")
        if size is None:
            size = (len(row_range), len(col_range))
        if min(size) < 1 and row_range and col_range:
            raise UserError(f"A tile of {size[0]} × {size[1]} cells is empty.", expected="1 or more")
        return _numpy(pooled_tile(record, index, row_range, col_range, size, reduce))

    def grid(self, site: SiteName, max_px: int = 96) -> SiteGrid:
        """Thumbnails of all heads of a site, at most `max_px` cells a side."""
        found = self.site(site)
        return site_grid(found, self.records[found.key], max_px)

    def grids(self, max_px: int = 96) -> tuple[SiteGrid, ...]:
        """Thumbnails of every head of every site; of a long text rough ones, from a few of its weights."""
        sizes = ((site.n_heads, self.records[site.key]) for site in self.sites)
        n_cells = sum(n_heads * record.n_queries * record.n_keys for n_heads, record in sizes)
        of_site = site_grid if n_cells <= MAX_EXACT_CELLS else sampled_grid
        return tuple(of_site(site, self.records[site.key], max_px) for site in self.sites)

    def grid_at_once(self, site: SiteName, max_px: int = 96) -> SiteGrid:
        """Quick thumbnails of a site's heads: for a long text rough ones, from a few of its weights."""
        found = self.site(site)
        return sampled_grid(found, self.records[found.key], max_px)

    def is_long(self, site: SiteName) -> bool:
        """Whether a site's maps are too large to be held whole; use `head_tile` for those."""
        record = self.records[self.site(site).key]
        return is_long(record.n_queries, record.n_keys)

    def head_tile(self, head: HeadName, max_px: int = 1024) -> MapTile:
        """The whole map of one head in blocks of cells, at most `max_px` blocks a side; for any length."""
        head = head_named(head, self.sites)
        return tile_of(self.records[head.site_key], head, max_px=max_px)

    def head_map(self, head: HeadName) -> HeadMap:
        """One head in full, with its tokens; raises UserError for a map too large to be held whole."""
        head = head_named(head, self.sites)
        queries, keys = self.tokens(head.site_key)
        record = self.records[head.site_key]
        if is_long(record.n_queries, record.n_keys):
            raise UserError(
                f"The map of {head.label} has {record.n_queries:,} × {record.n_keys:,} cells.",
                expected=f"at most {MAX_WHOLE_CELLS:,} in one array",
                action="Ask for a tile of it, or trace a shorter text.",
            )
        weights = site_weights(record, slice(head.head, head.head + 1))[0]
        check = self.check(head.site_key)
        return HeadMap(
            head=head,
            queries=queries,
            keys=keys,
            weights=frozen_numbers(weights),
            check=check,
            following=written_after(head.stack, self.target),
        )

    def save(self, path: str | Path, *, has_logits: bool = True) -> None:
        """Write the trace to a file for `load_trace`: always safetensors, whatever its name.

        Without `has_logits` the model's output is left out, and the file smaller.

        Raises SaveError, also for a name that promises numbers in another format.
        """
        if Path(path).suffix.lower() in (".npz", ".npy", ".csv"):
            raise SaveError(
                f"{path} would contain safetensors, not what its name suggests.",
                expected="a name such as attention.safetensors",
                action="For the numbers: attnscope trace FILE -o numbers.npz, or all_weights() of each site.",
            )
        save_trace(path, self, has_logits=has_logits)

    def check(self, site: SiteName | None = None) -> SelfCheck:
        """Whether this trace, or one site of it, can be trusted.

        Row sums, what the mask forbids, and the head outputs recomputed against the model's own.
        """
        sites = self.sites if site is None else (self.site(site),)
        found = merge_proofs(self.records[one.key].proof for one in sites)
        if found.is_good or site is not None:
            return found
        wrong = [one for one in sites if not self.check(one).is_good]
        return replace(found, where=some_sites(wrong, len(sites)))

    @property
    def n_bytes(self) -> int:
        """Memory of the records; it grows with the text, not with its square."""
        return sum(record.n_bytes for record in self.records.values())

    def _record(self, site: SiteName, head: int) -> tuple[SiteRecord, int]:
        found = self.site(site)
        named = head_named((*found.key, head), self.sites)
        return self.records[found.key], named.head


def save_trace(path: str | Path, trace: Trace, *, has_logits: bool = True) -> None:
    """Write one trace, with its logits if it `has_logits`; as `Trace.save`.

    On any error raises SaveError and leaves the old file untouched.
    """
    if not isinstance(trace, Trace):
        raise of_wrong_kind(trace, "what to save", "a path and a trace", "Or write trace.save(path).")
    save_records(path, (trace.kept,), has_logits=has_logits)


def load_trace(path: str | Path) -> Trace:
    """Read a file of one trace (of several, the first); raises LoadError."""
    return load_traces(path)[0]


def load_traces(path: str | Path) -> tuple[Trace, ...]:
    """Read every trace of a file; raises LoadError if it is damaged or not such a file."""
    return tuple(Trace(record) for record in load_records(path))


def _numpy(tensor: Tensor) -> NDArray[np.float32]:
    return np.asarray(tensor.cpu().numpy(), dtype=np.float32)


def _index(index: int, n: int, what: str) -> int:
    if not isinstance(index, SupportsIndex):
        raise UserError(f"{str(index)[:40]!r} is the number of no {what}.", expected=f"0 to {n - 1}")
    index = operator.index(index)
    if not -n <= index < n:
        raise UserError(f"There is no {what} {index}.", expected=f"0 to {n - 1}" if n else "no text is empty")
    return index % n


def _part(part: slice | range, n: int) -> range:
    if isinstance(part, slice):
        part = range(n)[part]
    if not isinstance(part, range):
        raise of_wrong_kind(part, "a part of a map", "a slice or a range, such as slice(0, 20)")
    if part.step != 1 or (len(part) and not 0 <= part.start <= part.stop <= n):
        raise UserError(
            f"The rows or columns {part} do not lie in the map.", expected=f"a range within 0 to {n}, step 1"
        )
    return part


def tile_of(
    record: SiteRecord,
    head: HeadRef,
    *,
    rows: Part | None = None,
    cols: Part | None = None,
    max_px: int = 1024,
) -> MapTile:
    """Some rows and columns (None: all) of one head in blocks of cells, at most `max_px` of them a side."""
    top, bottom = rows or (0, record.n_queries)
    left, right = cols or (0, record.n_keys)
    b = 1
    while max(bottom - top, right - left) > b * max_px:
        b *= 2
    one = OneHead(record, head.head)
    found = [pool_strip(one, strip, range(left, right), b) for strip in strips(range(top, bottom), b)]
    weights = torch.cat([pooled.weights() for pooled in found]).cpu()
    peak = largest_weight(weights)
    row_peaks = torch.cat([pooled.row_peaks for pooled in found]).exp().cpu()
    padded = row_peaks.new_zeros(len(weights) * b)
    padded[: len(row_peaks)] = row_peaks
    return MapTile(
        head=head,
        trace=0,
        rows=(top, bottom),
        cols=(left, right),
        b=b,
        levels=bytes_of(weights, peak).numpy(),
        peak=peak,
        head_peak=peak,
        row_peaks=padded.view(-1, b).amax(dim=1).numpy(),
        weights=weights.numpy() if b == 1 else None,
    )


def _texts_of(trace: Trace) -> Mapping[str, Tokens]:
    texts = {"Tokens": trace.source, "Target": trace.target}
    return {what: text for what, text in texts.items() if text is not None}
