"""What is wrong with a change, and whether generated content can be trusted: diffs, checks, analysers, reviews that last."""
