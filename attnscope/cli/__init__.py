"""The command line. Each command is a file; heavy libraries are imported when a command runs."""
