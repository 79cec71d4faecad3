"""Networks as immutable data, and what they mean.

Layouts, projections, prompts, layers, modules and networks; `dense` is the one definition of what
they compute. Nothing here knows where a network came from or what is done with it.
"""
