"""One thread per test process.

The suite already runs one process per core; BLAS, OpenMP and torch starting a thread pool in each
of them would only make tests slower and timings unstable. The libraries read these variables when
they are first imported, so they are set here, before any test module imports numpy.
"""

import gc
import importlib
import importlib.util
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

# Whoever runs the tests in the background may have switched Ctrl-C off, for the programs that they
# start, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine is no reason to fail: no example has a deadline, nor does drawing one.
settings.register_profile("inweave", deadline=None, suppress_health_check=list(HealthCheck))
settings.load_profile("inweave")


# Whole files about an extra are left out where it is missing, and the first lines say so.
NEEDED = {
    "torch": "test_attack.py test_circuits_baselines.py test_kernel_gpu.py test_lab_*.py "
    "test_nn.py test_whole_files.py",
    "sklearn": "test_estimators.py",
}
MISSING = {name: files for name, files in NEEDED.items() if importlib.util.find_spec(name) is None}
collect_ignore_glob = [file for files in MISSING.values() for file in files.split()]


def pytest_report_header() -> list[str]:
    return [f"{name} is not installed: left out are {files}" for name, files in MISSING.items()]


gc.set_threshold(50_000, 20, 20)  # compiling makes many small objects that live for a while


@pytest.fixture(scope="module", autouse=True)
def what_is_loaded_stays() -> None:
    """Libraries and the tests themselves are not looked through for garbage again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def every_pass_is_checked() -> Iterator[None]:
    """Whatever a test compiles: a pass that changes an answer is reported by its name."""
    from inweave.network import checked_passes

    with checked_passes():
        yield


@pytest.fixture
def unchecked_passes() -> Iterator[None]:
    """For tests of sizes and rounding: that passes are right is what hundreds of others test."""
    from inweave.compiler.driver import checked_by

    with checked_by(None):
        yield


@pytest.fixture(scope="class")
def stepped() -> Iterator[None]:
    """For tests of loops: affine ones too go through their steps, and are not powered."""
    from inweave.run import plan

    was, plan.WORTH = plan.WORTH, dict.fromkeys(plan.WORTH, 0.0)
    yield
    plan.WORTH = was


COMPILED: dict[Any, Any] = {}


@pytest.fixture
def compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was compiled before, by whatever test, is what it was then; that it is, others test.

    For tests of what is done with networks: that all ask for the same ones.
    """
    from inweave import network
    from inweave.compiler import resize

    def once(make: Any) -> Any:
        def known(origin: Any) -> Any:
            options = origin.target, origin.optimize, origin.tokens, origin.candidate
            key = (make, origin.program, *sorted(origin.sizes.items()), *options)
            if origin.layout is not None:
                return make(origin)
            if key not in COMPILED:
                COMPILED[key] = make(origin)
            return COMPILED[key]

        return known

    monkeypatch.setattr(resize, "compiled", once(resize.compiled))
    monkeypatch.setattr(network, "_chosen", once(network._chosen))


LIBRARIES = ("numpy", "torch", "jax.numpy", "array_api_strict")


@pytest.fixture(params=LIBRARIES)
def xp(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Each installed array library in turn, in double precision."""
    pytest.importorskip(request.param.partition(".")[0])
    module = importlib.import_module(request.param)
    if request.param != "jax.numpy":
        yield module
        return
    import jax

    with jax.enable_x64(True):
        yield module
