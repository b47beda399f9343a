"""Query in, ranked hits out: candidates, fusion with every addend named, and the choice of chunks."""
