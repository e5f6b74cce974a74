"""What models can be made of, a file for each scheme: what it is called, what it needs, how it is made.

Nothing here imports a heavy library before something is made, so that the window reads the same lists.
"""
