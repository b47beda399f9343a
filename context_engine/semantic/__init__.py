"""Search by meaning: the vectors of chunks, kept up to date in the background, and the reranking of an answer with them."""
