"""Networks in other people's tools: an ONNX model, a function of jax.

Each is the network as it is defined, layer by layer with full weights, under the same names
everywhere; `inweave.run` is the fast way to compute, this is the way to look inside, change and
ship. Nothing here is imported before it is asked for. The torch module is `inweave.stack.exported`,
because it is made of the layers there.
"""
