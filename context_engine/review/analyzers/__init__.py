"""Programs that know more of one language than our checks do, asked where they are installed: ruff, eslint, tsc, go vet, cargo, typos."""
