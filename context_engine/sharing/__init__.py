"""What machines share: a remote store of segments, vectors and records, and how each machine keeps what it has seen of them."""
