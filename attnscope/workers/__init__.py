"""The bridge: the only place where the window and the engine meet, on one thread."""
