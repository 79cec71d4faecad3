"""A plan as one piece of device code.

On a GPU a network of a hundred small steps is a hundred launches. A plan knows everything before it
runs: sizes, loops, which values stay. So the whole forward pass for a batch of prompts is written
as one kernel, in one of two shapes: one prompt per thread with all its values in registers
(`prompt_per_thread`), or one row per thread with what others read in shared memory
(`row_per_thread`, made of `shared`, `rows` and `staging`). `values` is what both know of a plan
beforehand, `writer` what they write alike, `functions` the pointwise functions in C; `generate`
chooses. A `frame` is what it takes to launch one; `device` compiles and launches through CuPy, and
`cache` keeps what was compiled, so that a kernel is written once in the life of a network.
"""
