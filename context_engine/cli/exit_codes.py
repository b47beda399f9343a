"""The exit codes of `ctx` besides 0."""

NOTHING_FOUND = 1
"""As with grep, an empty answer is exit code 1."""
WRONG_USAGE = 2
INTERRUPTED = 130
"""The exit code that shells report for a program that Ctrl-C ended."""
