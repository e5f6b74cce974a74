"""Heads on a plane and in groups, against points that are known."""

import numpy as np
import pytest
import torch

from attnscope.analysis import HeadDivergences
from attnscope.records import HeadRef
from attnscope.studies.study import study_module

syntax = study_module("syntax")
link_average = syntax.link_average
plane_of = syntax.plane_of
scale_classically = syntax.scale_classically
silhouette = syntax.silhouette


def test_that_points_on_a_plane_are_found_again() -> None:
    points = np.array([[0, 0], [4, 0], [4, 1], [0, 1.5], [2, 3]], float)
    squared = ((points[:, None] - points[None]) ** 2).sum(-1)
    found, share = scale_classically(squared)
    np.testing.assert_allclose(((found[:, None] - found[None]) ** 2).sum(-1), squared, atol=1e-9)
    assert share == pytest.approx(1.0)
    np.testing.assert_array_equal(found, scale_classically(squared)[0])
    for order in ([4, 3, 2, 1, 0], [1, 0, 2, 4, 3], [2, 4, 0, 3, 1]):
        placed = scale_classically(squared[np.ix_(order, order)])[0]
        assert (placed[np.abs(placed).argmax(axis=0), [0, 1]] > 0).all()
        np.testing.assert_allclose(placed, found[order], atol=1e-9)
    assert scale_classically(np.zeros((3, 3)))[1] == 1.0


def test_that_groups_that_stand_apart_are_found() -> None:
    points = np.array([[0, 0], [9, 9], [0.2, 0], [9, 9.3], [0, 0.1], [0, 20]], float)
    distances = np.sqrt(((points[:, None] - points[None]) ** 2).sum(-1))
    assert link_average(distances, 3) == [0, 1, 0, 1, 0, 2]
    assert silhouette(distances, [0, 1, 0, 1, 0, 2]) > silhouette(distances, [0, 0, 1, 1, 0, 2])
    assert len(set(link_average(distances, 1))) == 1


def test_that_a_plane_holds_every_head() -> None:
    heads = [HeadRef(stack="cross", layer=0, head=h) for h in range(5)]
    sums = HeadDivergences(heads)
    rows = torch.eye(4)[[0, 0, 1, 2, 2]][:, None]  # two pairs that look at one key, one head alone
    sums.add_weights(rows)
    plane = plane_of(sums, "cross")
    assert (plane.heads, plane.places.shape) == (tuple(heads), (5, 2))
    assert plane.clusters == (0, 0, 1, 2, 2)
    np.testing.assert_allclose(plane.divergences, sums.mean())
