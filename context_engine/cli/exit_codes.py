"""The exit codes of `ctx` besides 0: those of grep, and one of `ctx review`."""

NOTHING_FOUND = 1
"""As with grep, an empty answer, or the answer no."""
FAILED = 2
"""As with grep, an error: wrong usage, or something that could not be done."""
FINDINGS = 3
"""A review found what `--fail-on` names."""
INTERRUPTED = 130
"""The exit code that shells report for a program that Ctrl-C ended."""
