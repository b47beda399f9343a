"""Second passes over what somebody wrote: what it names is looked up, what comes back must be true."""
