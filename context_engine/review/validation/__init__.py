"""Validation of content: secrets, real parsers, then style and claims about the workspace. Valid code never fails."""
