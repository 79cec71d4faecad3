"""The plan of the reverse pass.

`reverse` makes it, `cotangents` adds up what is asked of a value, `collected` keeps the values of
every step of a loop.
"""
