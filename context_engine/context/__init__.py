"""What somebody gets to read: places in, the part of them that fits a budget out."""
