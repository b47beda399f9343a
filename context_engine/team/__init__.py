"""Everything that knows more than one machine: shared indexes, records and searches in a database, jobs, tokens.

The core imports nothing of it; `context_engine.team_parts` names what is loaded where a team is configured.

An index is published as immutable segments and their list, so it is seen whole by all or not at all. A machine without
an index starts from it; answers never wait for another machine. Where the database itself searches, it reaches only
repositories that the caller may see, and ranks as a local index does.

Plans, memories and reviews stay files. Before they are read, changes of the others are applied; a writer holds a lock
that counts for all machines and writes to the database before the file. What people and git changed meanwhile is
found by hash, and a pure table of rules merges it. Tests with kills, cuts and damage are in tests/team.
"""
