"""How `ctx` is made known to the programs that use it: which clients there are, where each keeps what, in which shape."""
