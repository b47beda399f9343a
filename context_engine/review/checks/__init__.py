"""The built-in checks, each with its examples; `check_registry` lists them all."""
