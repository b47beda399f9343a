"""What a team wants to do: plans in steps, how far they are, and every version of them."""
