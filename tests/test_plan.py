"""The plan computes what the dense executor computes, with less work."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.random_networks import absolute, networks
from weft import (
    Network,
)
from weft.arithmetic import Arithmetic, Floats, Rationals
from weft.prompt import fill_prompt
from weft.run import dense, plan
from weft.verify.arithmetic import FieldArithmetic
from weft.verify.field import FieldArray

FIELD = FieldArithmetic(key=3)
LEADS = [(), (), (2,), (3, 1)]
often = settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
rarely = settings(often, max_examples=40)


def random_inputs(net: Network, draw: Any, make: Any) -> dict[str, Any]:
    return {
        spec.name: make((*draw(st.sampled_from(LEADS)), spec.rows, spec.cols))
        for spec in net.inputs
    }


def check_every_entrance(net: Network, inputs: dict[str, Any], ar: Arithmetic, same: Any) -> None:
    """Inputs, blocks and prompt in; answers, blocks and prompt out; all as the dense executor."""
    H = fill_prompt(net.layout, net.fills, inputs, ar)
    expected = dense.forward(net, H, ar)
    answers = plan(net).answers(inputs, ar)
    assert list(answers) == [output.name for output in net.outputs]
    for output in net.outputs:
        same(answers[output.name], output.place.read(net.layout, expected))
    same(plan(net).forward(H, ar), expected)
    blocks = plan(net).run(net.layout.unpack(H), ar)
    for name, block in net.layout.unpack(expected).items():
        same(blocks[name], block)


# -- equal to the definition ----------------------------------------------------------------------
def equal(found: Any, expected: Any) -> None:
    assert found.shape == expected.shape
    assert (found == expected).all()


@often
@given(networks(), st.integers(0, 99), st.data())
def test_from_inputs_and_blocks_it_equals_the_dense_executor_over_the_field(net, seed, data):
    rng = np.random.default_rng(seed)
    inputs = random_inputs(net, data.draw, lambda shape: FieldArray.random(shape, rng))
    check_every_entrance(net, inputs, FIELD, equal)


@often
@given(networks(), st.integers(0, 99), st.sampled_from(LEADS))
def test_from_any_prompt_it_equals_the_dense_executor_over_the_field(net, seed, lead):
    H = FieldArray.random((*lead, net.tokens, net.width), np.random.default_rng(seed))
    equal(plan(net).forward(H, FIELD), dense.forward(net, H, FIELD))


@rarely
@given(networks(repeats=2, modules_at_most=1, activation="relu"), st.integers(0, 99), st.data())
def test_it_equals_the_dense_executor_over_the_rationals(net, seed, data):
    rng = np.random.default_rng(seed)

    def make(shape: tuple[int, ...]) -> Any:
        return Rationals().array(rng.integers(-3, 4, shape) / 2)

    check_every_entrance(net, random_inputs(net, data.draw, make), Rationals(), equal)


@often
@given(networks(repeats=6, modules_at_most=2, activation="relu"), st.integers(0, 99), st.data())
def test_it_equals_the_dense_executor_in_floats_up_to_rounding(net, seed, data):
    rng = np.random.default_rng(seed)
    bound = absolute(net)
    inputs = random_inputs(net, data.draw, lambda shape: rng.uniform(-0.3, 0.3, shape))
    ar = Floats()
    H = fill_prompt(net.layout, net.fills, inputs, ar)
    with np.errstate(all="ignore"):
        room = 1e-12 * dense.forward(bound, np.abs(fill_prompt(
            net.layout, net.fills, {name: np.abs(x) for name, x in inputs.items()}, ar)))  # fmt: skip
        expected = dense.forward(net, H)
        found = plan(net).forward(H)
        answers = plan(net).answers(inputs, ar)
    if not np.isfinite(room).all() or room.max() > 1e200:
        return
    assert found.shape == expected.shape
    assert (np.abs(found - expected) <= room).all()
    for output in net.outputs:
        gap = np.abs(answers[output.name] - output.place.read(net.layout, expected))
        assert (gap <= output.place.read(net.layout, room)).all()
