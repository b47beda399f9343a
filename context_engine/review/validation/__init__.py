"""Whether content can be trusted: secrets, real parsers, then habits and what it says of the workspace. Never fails valid code."""
