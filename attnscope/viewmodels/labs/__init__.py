"""What the window knows of labs: what is set, what the worker was asked. No Qt, no torch."""
