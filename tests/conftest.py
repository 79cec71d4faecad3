"""One thread per test process.

The suite already runs one process per core; BLAS, OpenMP and torch starting a thread pool in each
of them would only make tests slower and timings unstable. The libraries read these variables when
they are first imported, so they are set here, before any test module imports numpy.
"""

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
