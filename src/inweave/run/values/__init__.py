"""The values of a plan, as a graph.

`build` runs a network once on `terms` (made of `term`s) instead of numbers, column ranges found by
`spans`, modules that repeat by `loops`. What comes out are `node`s in a `graph` (over `scopes` and
`sums`, terms that are `alike` put together); `kinds`, `mirror` and `newton` say what a value is.
`names` is for people.
"""
