"""Labs: small experiments with attention, worked out here in numpy. No Qt, no torch."""
