"""State of the labs in the window: settings and questions to the worker. No Qt, no torch."""
