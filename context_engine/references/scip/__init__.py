"""Edges between names that another tool knows: those of a SCIP index."""
