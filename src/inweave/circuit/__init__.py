"""The circuit of a network: which head computes what, from what, and what the answer depends on.

`graph` is the circuit as data, under the names that interpretability tools use, and as JSON.
`unrolled` puts a network's layers in the order in which they run, `exact` holds what a layer reads
and writes in exact numbers, `patching` replaces one head's contribution on one edge and looks
whether the answer changes, and `found` puts all of it together.
"""
