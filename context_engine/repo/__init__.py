"""The only room that touches the user's files and git: checked paths, walking, reading, writing, watching."""
