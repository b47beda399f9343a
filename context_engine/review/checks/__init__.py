"""The checks: one function each, its examples beside it. `listed` has them all, in the order of their families."""
