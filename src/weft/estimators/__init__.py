"""scikit-learn estimators whose prediction is one forward pass of a compiled network.

`fit` does not train: it lays the training rows out as a prompt, reads the number of steps off the
spectrum of the data and compiles (or finds in a cache) the network for these sizes. `predict` puts
the queries beside the training rows and runs the network once for all of them. What the network
computes inside is the algorithm of `weft.estimators.programs`, and it carries a certificate.

Needs scikit-learn, the extra `weft[sklearn]`; `import weft` does not load it.
"""

from __future__ import annotations

try:
    import sklearn as _sklearn  # noqa: F401
except ImportError as error:  # pragma: no cover - the tests have scikit-learn
    raise ImportError(
        "weft.estimators needs scikit-learn; install it with: pip install 'weft[sklearn]'"
    ) from error

from weft.estimators.lasso import InContextLasso
from weft.estimators.logistic import InContextLogistic
from weft.estimators.ridge import InContextRidge

__all__ = ["InContextLasso", "InContextLogistic", "InContextRidge"]
