"""What a hostile repository, client or neighbor may try, and that it gets nothing."""
