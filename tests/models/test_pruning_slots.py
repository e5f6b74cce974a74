"""Which head goes where, so that a library that wants equal sites still understands the model."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnscope.models.families import FAMILIES, SiteSlots, free_slots, grouped_slots, same_slots

SITES = [("decoder", 0), ("decoder", 1)]


def test_that_heads_keep_their_places_in_the_same_shape():
    found = same_slots((1, 3), n_heads=4, n_kv_heads=2)
    assert found == SiteSlots(queries=(None, 1, None, 3), keys=(0, 1))
    assert same_slots((2,), n_heads=4, n_kv_heads=2).keys == (None, 1)


def test_that_a_site_without_heads_keeps_one_of_zeros():
    assert free_slots(()) == SiteSlots(queries=(None,), keys=(None,))
    assert free_slots((0, 2)) == SiteSlots(queries=(0, 2), keys=(0, 2))


def test_that_a_whole_group_goes_and_a_half_one_is_filled_up():
    kept = {SITES[0]: (0, 1, 2, 3), SITES[1]: (0, 2)}
    found = grouped_slots(kept, n_heads=8, n_kv_heads=4, width=64)
    assert found[SITES[0]] == SiteSlots(queries=(0, 1, 2, 3), keys=(0, 1))
    assert found[SITES[1]] == SiteSlots(queries=(0, None, 2, None), keys=(0, 1))


def test_that_groups_are_split_where_that_is_smaller():
    found = grouped_slots({SITES[0]: (0, 1, 2, 4)}, n_heads=8, n_kv_heads=2, width=64)
    assert (
        found[SITES[0]] == SiteSlots(queries=(0, 1, 2, None), keys=(0, 0)) or len(found[SITES[0]].queries) < 8
    )


def test_that_slots_divide_the_width_or_stay_as_they_were():
    kept = {SITES[0]: (0, 1, 2)}
    assert grouped_slots(kept, n_heads=4, n_kv_heads=4, width=32)[SITES[0]].queries == (0, 1, 2, None)
    assert len(grouped_slots(kept, n_heads=4, n_kv_heads=4, width=24)[SITES[0]].queries) == 3


def test_that_a_bias_column_goes_when_its_head_is_off_in_every_layer():
    kept = {("encoder", 0): (1, 3), ("encoder", 1): (1, 2), ("decoder", 0): (0,), ("cross", 0): (2, 3)}
    slots = FAMILIES["t5"].small_slots(None, kept)
    assert slots["encoder", 0].queries == (1, None, 3)
    assert slots["encoder", 1].queries == (1, 2, None)
    assert slots["decoder", 0].queries == (0, None, None)
    assert slots["cross", 0].queries == (2, 3, None)
    for stack, read in (("encoder", {1, 2, 3}), ("decoder", {0})):  # a column is of one head in every layer
        layers = [found.queries for key, found in slots.items() if key[0] == stack]
        columns = [{head for head in column if head is not None} for column in zip(*layers, strict=True)]
        assert all(len(column) <= 1 for column in columns)
        assert set().union(*columns) == read


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    kept=st.lists(st.sets(st.integers(0, 7)), min_size=1, max_size=3),
    n_kv_heads=st.sampled_from([1, 2, 4, 8]),
    width=st.sampled_from([24, 64, 56]),
)
def test_that_every_kept_head_has_one_slot_and_reads_its_own_keys(kept, n_kv_heads, width):
    heads = {("decoder", k): tuple(sorted(some)) for k, some in enumerate(kept)}
    found = grouped_slots(heads, n_heads=8, n_kv_heads=n_kv_heads, width=width)
    sizes = {(len(slots.queries), len(slots.keys)) for slots in found.values()}
    assert len(sizes) == 1
    n_slots, n_keys = sizes.pop()
    assert n_slots <= 8
    assert n_slots % n_keys == 0
    assert n_slots == 8 or width % n_slots == 0
    for key, slots in found.items():
        assert sorted(slot for slot in slots.queries if slot is not None) == list(heads[key])
        for place, slot in enumerate(slots.queries):
            if slot is not None:
                assert slots.keys[place // (n_slots // n_keys)] == slot // (8 // n_kv_heads)
