"""AttnScope: see every attention head of a Transformer, train, prune, compare and export.

The public Python API, imported on first use so that `import attnscope` stays instant.
"""

__version__ = "0.1.0"
