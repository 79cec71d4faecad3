"""A graph as lines over numbered slots.

`code` writes them; `lifetimes` and `reuse` say which arrays may be written into again, `narrow`
what a loop is done with, `shown` which inputs need no look.
"""
