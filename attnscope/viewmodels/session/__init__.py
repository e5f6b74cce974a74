"""What is open and shown, with its history and its files."""
