"""What a team knows: memories that people and agents write down, and discoveries that are read out of the repository."""
