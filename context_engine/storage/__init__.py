"""What survives a restart: the store promise, and the embedded default that keeps it with SQLite and mapped segments."""
