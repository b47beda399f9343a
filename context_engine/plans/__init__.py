"""Plans: tasks divided into steps, with their progress, approvals and every version."""
