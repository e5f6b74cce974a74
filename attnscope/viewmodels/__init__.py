"""State of each view: pure Python, no Qt, no torch.

View models hold what is shown, post requests to the worker and take its replies.
"""
