"""Models of Hugging Face's `transformers`, entered through the library's own attention interface.

Nothing here is imported, and the library neither, until such a model is opened.
"""
