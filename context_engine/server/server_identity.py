"""The name, version and instructions of the server, for its first reply and for the library."""

from context_engine import __version__

NAME = "ctx"
TITLE = "Context Engine"
VERSION = __version__
INSTRUCTIONS = """\
Finds code in this repository. Before grepping or opening files, ask codebase_retrieval in plain words; search_files finds \
text, find_symbol finds definitions, read_fragment reads only the lines you need.

Local, fast, always current: the index follows edits, and each answer states how fresh it is. Answers name path and lines; \
an empty answer states the reason and the next step. Use read_file when you need more than a fragment. \
To change files call edit_file, which refuses an uncertain edit and says what to send instead. \
index_status reports what is indexed. More tools (callers and impact, undo, plans, reviews) are found with tool_manifest \
and run with call_tool."""
"""Some clients show a model only the first 250 characters, so these state the purpose and when to use it."""
