"""Text in, vectors out: what an embedder promises, the providers there are, and the ones this package brings along."""
