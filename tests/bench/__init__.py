"""`attnscope bench`: what the program promises of speed and memory, measured; run from a checkout."""
