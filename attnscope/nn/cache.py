"""Keys and values of the tokens that a decoder has read, so that each is computed once.

    symbol   meaning                                              shape
    k, v     keys and values of one call                          [n_sequences, n_kv_heads, n_new, d_head]
    kept     all keys or values of a site so far                  [n_sequences, n_kv_heads, n_tokens, d_head]

Self-attention appends (`extend`), attention to a memory is computed once (`keep`, `find`). Keys are kept
as attention reads them, already turned by their position. Must not import attention or layers.
"""

from torch import Tensor

from attnscope.records.sites import SiteKey

_FIRST_ROOM = 64


class KeyValueCache:
    """Keys and values that later passes reuse, for any number of sequences.

    The memory is of one text, which all sequences share, or of as many texts as there are sequences.

    `n_tokens` and `n_sequences` are what the decoder has read; it counts them itself (`note`). `states` are
    those of a recurrent decoder after these tokens, each [n_layers, n_sequences, d_model]; none before.
    """

    def __init__(self) -> None:
        self.n_tokens = 0
        self.n_sequences = 0
        self.states: tuple[Tensor, ...] = ()
        self._carried: dict[int, tuple[Tensor, ...]] = {}
        self._rooms: dict[SiteKey, tuple[Room, Room]] = {}
        self._fixed: dict[SiteKey, tuple[Tensor, Tensor]] = {}

    @property
    def n_bytes(self) -> int:
        """Memory in use, including spare room for more tokens."""
        kept = [*self._fixed.values(), *((k.tensor, v.tensor) for k, v in self._rooms.values())]
        kept += self._carried.values()  # type: ignore[arg-type]  # summed alike, however many there are
        return sum(t.numel() * t.element_size() for pair in (*kept, self.states) for t in pair)

    def note(self, n_sequences: int, n_new: int) -> None:
        """Note that a pass read `n_new` more tokens of each of `n_sequences` sequences."""
        self.n_sequences, self.n_tokens = n_sequences, self.n_tokens + n_new

    def carried(self, layer: int) -> tuple[Tensor, ...]:
        """State of a layer's mixer after the tokens so far, each [n_sequences, …]; none before them."""
        return self._carried.get(layer, ())

    def carry(self, layer: int, *kept: Tensor) -> None:
        """Keep the state of a layer's mixer for later tokens, of the same size for any text."""
        self._carried[layer] = kept

    def extend(self, site: SiteKey, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """All keys and values of a self-attention, those of the new tokens appended; both are views."""
        if site not in self._rooms:
            self._rooms[site] = Room(k[:, :, :0]), Room(v[:, :, :0])
        keys, values = self._rooms[site]
        return keys.append(k), values.append(v)

    def find(self, site: SiteKey, n_sequences: int) -> tuple[Tensor, Tensor] | None:
        """Keys and values of a memory for so many sequences, None if unknown so far."""
        found = self._fixed.get(site)
        if found is None:
            return None
        k, v = found
        if len(k) == n_sequences:
            return found
        if len(k) != 1:
            raise ValueError(f"the memory is of {len(k)} texts, and {n_sequences} sequences read it")
        return k.expand(n_sequences, -1, -1, -1), v.expand(n_sequences, -1, -1, -1)

    def keep(self, site: SiteKey, k: Tensor, v: Tensor) -> None:
        """Keys and values of a memory of one text or several: [n_texts, n_kv_heads, n_source, d_head]."""
        if k.shape[:1] != v.shape[:1]:
            raise ValueError(f"keys are of {k.shape[0]} texts, values of {v.shape[0]}")
        self._fixed[site] = (k, v)

    def select(self, parents: Tensor) -> None:
        """Make sequence i continue sequence `parents[i]`; int64 [n_sequences from now on]."""
        self.n_sequences = len(parents)
        self.states = tuple(state.index_select(1, parents) for state in self.states)
        for rooms in self._rooms.values():
            for room in rooms:
                room.select(parents)
        for layer, kept in self._carried.items():
            self._carried[layer] = tuple(one.index_select(0, parents) for one in kept)

    def select_texts(self, texts: Tensor) -> None:
        """Make sequence i read the memory of text `texts[i]`, if there is more than one."""
        for site, (k, v) in self._fixed.items():
            if len(k) > 1:
                self._fixed[site] = (k.index_select(0, texts), v.index_select(0, texts))


class Room:
    """Keys or values of one site with spare room, so that appending copies only the new ones.

    `given` is a view of those so far, which later tokens leave as it is.
    """

    def __init__(self, kept: Tensor) -> None:
        self.given = self._all = kept

    @property
    def tensor(self) -> Tensor:
        return self._all

    def append(self, new: Tensor) -> Tensor:
        """Old and new ones together, [n_sequences, n_kv_heads, n_tokens, d_head]: a view."""
        if new.shape[0] != self._all.shape[0]:
            raise ValueError(f"{new.shape[0]} sequences, expected {self._all.shape[0]}")
        n_before, n_new = self.given.shape[2], new.shape[2]
        end = n_before + n_new
        if end > self._all.shape[2]:
            larger = new.new_empty(*new.shape[:2], max(_FIRST_ROOM, 2 * end), new.shape[3])
            larger.narrow(2, 0, n_before).copy_(self.given)
            self._all = larger
        self._all.narrow(2, n_before, n_new).copy_(new)
        self.given = self._all.narrow(2, 0, end)
        return self.given

    def select(self, parents: Tensor) -> None:
        """Make sequence i continue sequence `parents[i]`."""
        # Room goes with the copy: the next append is then cheap again.
        self._all = self._all.index_select(0, parents)
        self.given = self._all.narrow(2, 0, self.given.shape[2])
