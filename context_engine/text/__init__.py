"""PURE. Strings and line numbers; no files, no clock, no chance."""
