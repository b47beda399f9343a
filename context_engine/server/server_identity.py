"""How this server introduces itself. No import: the first reply is made of it, and so is the reply of the library."""

from context_engine import __version__

NAME = "ctx"
TITLE = "Context Engine"
VERSION = __version__
INSTRUCTIONS = """\
Finds code in this repository. Before grepping or opening files, ask codebase_retrieval in plain words; search_files finds \
text, find_symbol definitions, trace callers and impact, read_fragment only the lines you need.

Local, fast, always current: edits are followed, and each answer says how fresh it is. Answers name path and lines; an \
empty one says why it is empty and what to do next. Read with read_file when you need more than a fragment. \
To change files call edit_file - what is uncertain is refused, with what to send instead - and undo_edit to take edits back. \
index_status tells what is indexed. Tools that are not listed are found with tool_manifest and run with call_tool."""
"""Some clients show a model the first 250 characters only: they say what this is for and when to use it."""
