"""What the commits of a repository say: the log as facts, files that change together, blame, and what a task will change."""
