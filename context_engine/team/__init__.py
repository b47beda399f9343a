"""Everything that knows more than one machine: shared indexes, records and searches in a database, jobs, tokens.

The core imports nothing of it; `context_engine.team_parts` names what is loaded where a team is configured.

An index is shared as immutable segments and a manifest with a revision, so it is seen whole by all or not at all, and
an interrupted run changes nothing for readers. No answer waits longer than 0.1 s for the remote store after the first
contact. Where the database itself searches, it reaches only repositories that the caller may see, and ranks as a
local index does.

Plans, memories and reviews stay files. Before they are read, changes of the others are applied; a writer holds a lock
that counts for all machines and writes to the database before the file. What people and git changed meanwhile is
found by hash, and a pure table of rules merges it. Tests with kills, cuts and damage are in tests/team.
"""
