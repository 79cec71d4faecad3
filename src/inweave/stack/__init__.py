"""One stack of torch layers: trainable, hooked, traced and exported.

`attention` and `pointwise` are the layers, `network` puts them together as a network's data does,
`blocks` unrolls them with hook points, `exported` is what `net.to_torch()` gives and `lens` what
`net.to_lens()` does. Everything here works on the model's data; `inweave.nn` is the public face,
which hands out public networks. Importing it imports torch.
"""
