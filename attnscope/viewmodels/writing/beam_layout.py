"""Where the nodes of a beam tree stand: one row a token, the best of each row at the left."""

from dataclasses import dataclass
from typing import Literal

from attnscope.records.generation import BeamNode, BeamTree

PathKind = Literal["best", "kept", "dropped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedNode:
    """One node: `row` counts tokens from 0, `column` ranks the nodes of a row from 0.

    `parent` is a place among the placed nodes, None for a first token. `kind` is `best` on the path to
    the best text, `dropped` where the search went no further.
    """

    node: BeamNode
    index: int
    row: int
    column: int
    parent: int | None
    kind: PathKind

    @property
    def sentence(self) -> str:
        """The node in words and numbers."""
        node = self.node
        ends = {"kept": "kept", "dropped": "dropped", "finished": "ends its text"}[node.state]
        return (
            f"“{node.token.piece}”  {ends}\n"
            f"log p of this token  {node.log_probability:.4g} nats\n"
            f"log p of the text  {node.total:.4g} nats\n"
            f"score  {node.score:.4g}"
        )


def place_nodes(tree: BeamTree, *, has_dropped: bool = True) -> tuple[PlacedNode, ...]:
    """Every node in its place; the dropped ones at the right of their row, or left out."""
    best = set(tree.path(tree.best)) if tree.nodes else set()
    rows: dict[int, list[int]] = {}
    for index, node in enumerate(tree.nodes):
        if has_dropped or node.state != "dropped":
            rows.setdefault(node.depth - 1, []).append(index)
    placed: list[PlacedNode] = []
    places: dict[int, int] = {}
    for row in sorted(rows):
        ranked = sorted(rows[row], key=lambda index: (tree.nodes[index].state == "dropped", index))
        for column, index in enumerate(ranked):
            node = tree.nodes[index]
            places[index] = len(placed)
            kind: PathKind = "best" if index in best else "dropped" if node.state == "dropped" else "kept"
            parent = None if node.parent is None else places[node.parent]
            placed.append(
                PlacedNode(node=node, index=index, row=row, column=column, parent=parent, kind=kind)
            )
    return tuple(placed)
