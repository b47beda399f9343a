"""The rules of names of each language."""
