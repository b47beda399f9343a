"""`ctx doctor`: looks at every part the product stands on and says, of each that is ill, how to mend it.

Each check is a small function from a `Case` to findings; `examine.CHECKS` is the list of them, in the order of the report.
"""
