"""The window itself: bars, commands, files."""
