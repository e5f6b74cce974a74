"""Lists that grow, a file for each entry: kinds of tokenizers, scores, norms, optimisers, measures of heads.

An entry says what it is called and how it is made or computed. Nothing here imports a heavy library before it
is needed, so that the window reads the same lists.
"""
