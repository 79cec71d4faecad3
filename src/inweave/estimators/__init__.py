"""scikit-learn estimators whose prediction is one forward pass of a compiled network.

`fit` does not train: it lays the training rows out as a prompt, reads the number of steps off the
spectrum of the data and compiles (or finds in a cache) the network for these sizes. `predict` puts
the queries beside the training rows and runs the network once for all of them. What the network
computes inside is the algorithm of `inweave.estimators.programs`, and it carries a certificate.

Needs scikit-learn, the extra `sklearn`; `import inweave` does not load it.
"""

from __future__ import annotations

from inweave.errors import needs_extra

with needs_extra("inweave.estimators", "sklearn"):
    from inweave.estimators.lasso import InContextLasso
    from inweave.estimators.logistic import InContextLogistic
    from inweave.estimators.ridge import InContextRidge

__all__ = ["InContextLasso", "InContextLogistic", "InContextRidge"]
