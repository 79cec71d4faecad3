"""scikit-learn estimators whose coefficients are the answers of a compiled network.

`fit` does not train: it makes a prompt of the data, compiles the network for its sizes (or finds it
in a cache) and runs it, in one pass or in several that follow each other. What the network computes
inside is the algorithm of `inweave.estimators.programs`, and it carries a certificate. `predict`
reads queries off what the last pass left.

Needs scikit-learn, the extra `sklearn`; `import inweave` does not load it.
"""

from __future__ import annotations

from inweave.errors import needs_extra

with needs_extra("inweave.estimators", "sklearn"):
    from inweave.estimators.lasso import InContextLasso
    from inweave.estimators.logistic import InContextLogistic
    from inweave.estimators.ridge import InContextRidge

__all__ = ["InContextLasso", "InContextLogistic", "InContextRidge"]
