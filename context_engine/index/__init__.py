"""Keeps the store true to the workspace: what changed, how files are cut, built, published and followed."""
