"""Everything that knows more than one machine: shared indexes, records and searches in a database, jobs, tokens.

The core imports nothing of it; `context_engine.team_parts` names what is loaded where a team is configured.
"""
