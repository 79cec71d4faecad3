"""Running networks at the algorithm's own speed.

In reading order: `plan` is the entrance and says what happens to a call, `ready` the short way into
one like an earlier one, `torch` the way in while torch compiles, `dask` the way in for data beyond
memory. `values` turns a network into a graph of what it really needs, `rules` take work out of it,
`lines` write it as code, `libraries` run that in numpy, torch and jax, `kernel` is the same as
device code, `backward` the plan of gradients. `cost` is what a plan takes, `wide` where float32 has
no room; `domains` and `growth` say what went wrong.
"""
