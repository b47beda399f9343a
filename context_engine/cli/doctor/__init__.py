"""`ctx doctor`: check every part of the installation and suggest a fix for each problem.

Each check is a small function from a `DoctorContext` to results; `check_runner.CHECKS` lists them in report order.
"""
