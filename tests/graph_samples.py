"""A made-up attention graph: two inputs, one layer in between, one output token."""

from attnscope.records import AttentionGraph, GraphEdge, GraphNode, Token

CAT, SAT = Token(id=5, piece="cat"), Token(id=6, piece="=sat")


def graph() -> AttentionGraph:
    nodes = (
        GraphNode(level=2, position=1, token=SAT, influence=1.0),
        GraphNode(level=1, position=0, token=CAT, influence=0.25),
        GraphNode(level=1, position=1, token=SAT, influence=0.75),
        GraphNode(level=0, position=0, token=CAT, influence=0.25),
        GraphNode(level=0, position=1, token=SAT, influence=0.75),
    )
    edges = (
        GraphEdge(upper=0, lower=1, weight=0.25, is_stream=False),
        GraphEdge(upper=0, lower=2, weight=0.75, is_stream=True),
        GraphEdge(upper=1, lower=3, weight=1.0, is_stream=True),
        GraphEdge(upper=2, lower=4, weight=1.0, is_stream=True),
    )
    levels = ("decoder input", "decoder 0", "decoder 1")
    return AttentionGraph(levels=levels, nodes=nodes, edges=edges, threshold=0.01, kept_share=1.0)
