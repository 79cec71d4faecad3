"""Running networks at the algorithm's own speed.

In reading order: `plan` is the entrance and says what happens to a call. `graph` (over `scopes` and
`sums`), `terms`, `spans`, `loops` and `build` turn a network into a graph of the values it really
needs, `fold` folds its constants and moves work `ahead` of loops; `code` writes the graph as lines
over slots; `execute` runs lines in any arithmetic, `written` writes loops out as Python, as `numpy`
(with `lifetimes` and `narrow`) and `in_torch` want them, `jax` stages them; `functions` has what is
pointwise. `ready` is the short way into a call for inputs like those of an earlier one (`shown`:
some need no look), `torch` the way in while torch compiles; `domains` and `growth` say what went
wrong.
"""
