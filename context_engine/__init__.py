"""Context Engine: finds the right code in a repository, for people and for coding agents."""

__version__ = "0.1.0"
