"""Single precision is usable: no network loses more than twice what hand-written code loses.

But for inverses that least depth makes geometric sums of: their bar is said in machine precisions.
"""

import numpy as np
import pytest

import inweave
from benchmarks import precision
from inweave import gallery

pytestmark = pytest.mark.usefixtures("unchecked_passes", "compiled_once")


@pytest.mark.parametrize("entry", gallery.entries(), ids=lambda entry: entry.name)
def test_a_network_is_not_twice_as_far_off_in_float32_as_the_same_algorithm_by_hand(entry):
    for mode, network in precision.networks(entry).items():
        found = precision.errors(entry, network)
        assert found["network"] <= precision.most(entry.name, mode, found), (mode, found)


@pytest.mark.parametrize("entry", gallery.entries(), ids=lambda entry: entry.name)
def test_float32_in_means_float32_out(entry):
    network = entry.compile(verify=False)  # at its own domains: no entry is for float64 only
    answer = network(**precision.single(entry, 0))
    parts = answer.values() if isinstance(answer, dict) else [answer]
    assert {np.asarray(part).dtype for part in parts} == {np.dtype(np.float32)}


def test_a_table_that_float32_cannot_hold_is_refused_and_not_wrong():
    entry = gallery.get("conjugate_gradient")
    network = entry.compile(verify=False, domain=(1e-20, 1e6))
    with pytest.raises(
        inweave.DTypeError, match=r"reciprocal over \[1e-20.* more than float32 holds"
    ):
        network(**precision.single(entry, 0))
