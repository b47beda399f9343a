"""Changes files without surprise: where an edit lands, what it becomes, and how it is written, undone and done again."""
