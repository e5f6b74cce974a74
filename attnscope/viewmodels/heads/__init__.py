"""The state of the Heads page: measures, likeness, pruning."""
