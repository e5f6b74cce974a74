"""States of what lies behind an output and inside a head."""
