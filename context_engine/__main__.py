"""`python -m context_engine` is `ctx`."""

from context_engine.cli import main

if __name__ == "__main__":
    main()
