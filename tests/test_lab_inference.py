"""Inference: intervals cover as often as they say, families and contrasts are what they are."""

from __future__ import annotations

import math

import numpy as np
import pytest

from inweave.errors import InputError
from inweave.lab import inference
from inweave.lab.inference import (
    contrasts,
    effect,
    holm,
    paired,
    t_interval,
    t_tail,
)

SEEDS, TRIALS = 20, 800


def covered(draw, mean):
    found = [t_interval(draw()) for _ in range(TRIALS)]
    return sum(one.low <= mean <= one.high for one in found) / TRIALS


def test_at_20_seeds_intervals_of_95_percent_cover_the_mean_in_95_percent_of_cases():
    """Normal numbers and skewed ones (a gamma of skewness 1), within three binomial errors."""
    rng = np.random.default_rng(0)
    error = 3 * math.sqrt(0.95 * 0.05 / TRIALS)
    assert covered(lambda: rng.normal(size=SEEDS), 0.0) == pytest.approx(0.95, abs=error)
    assert covered(lambda: rng.gamma(4, size=SEEDS), 4.0) == pytest.approx(0.95, abs=error)


def test_on_very_skewed_numbers_they_fall_short_as_the_module_says():
    """Exponential numbers, of skewness 2; and normal ones of which one in twenty is far apart."""
    rng = np.random.default_rng(1)
    assert covered(lambda: rng.exponential(size=SEEDS), 1.0) == pytest.approx(0.92, abs=0.03)

    def apart():
        return rng.normal(0, 0.01, SEEDS) + (rng.random(SEEDS) < 0.05)

    assert covered(apart, 0.05) == pytest.approx(0.65, abs=0.06)


def test_students_distribution_is_scipys():
    stats = pytest.importorskip("scipy.stats")
    for freedom in (1, 4, 19, 200):
        for p in (0.6, 0.975, 0.999):
            assert inference.t_quantile(p, freedom) == pytest.approx(stats.t.ppf(p, freedom))
        assert inference.t_cdf(-1.3, freedom) == pytest.approx(stats.t.cdf(-1.3, freedom))
    x = np.random.default_rng(0).normal(0.3, 1, 20)
    assert effect(x).p == pytest.approx(stats.ttest_1samp(x, 0).pvalue)


def test_pairing_removes_what_seeds_have_in_common():
    rng = np.random.default_rng(0)
    seeds = rng.normal(0, 5, 20)
    one, other = seeds + rng.normal(0, 0.1, 20), seeds + 1 + rng.normal(0, 0.1, 20)
    found = paired(one, other)
    assert found.high < -0.9
    assert found.p < 1e-12
    one[3] = math.nan
    assert paired(one, other).seeds == 19
    with pytest.raises(InputError, match="same seeds"):
        paired([1.0, 2.0], [1.0])


def test_holm_corrects_a_family():
    """The p-values of a textbook: 0.01, 0.04, 0.03 of three."""
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx(
        {"a": 0.03, "b": 0.06, "c": 0.06}
    )
    assert holm({"a": 0.9, "b": 0.8}) == {"a": 1.0, "b": 1.0}


def test_a_family_of_nothing_is_rarely_called_something():
    rng = np.random.default_rng(0)
    false = sum(
        min(holm({k: effect(rng.normal(size=20)).p for k in range(6)}).values()) < 0.05
        for _ in range(400)
    )
    assert false / 400 == pytest.approx(0.05, abs=3 * math.sqrt(0.05 * 0.95 / 400))


def test_contrasts_recover_the_effects_that_numbers_are_made_of():
    rng = np.random.default_rng(0)
    seeds = rng.normal(size=20)
    cells = {
        (a, b, c): seeds - 2.0 * a + 0.5 * c + 3.0 * (a and b) for a in (False, True)
        for b in (False, True) for c in (False, True)
    }  # fmt: skip
    found = contrasts(("A", "B", "C"), cells)
    assert found["A"].mean == pytest.approx(-2.0 + 1.5)
    assert found["B"].mean == pytest.approx(1.5)
    assert found["C"].mean == pytest.approx(0.5)
    assert found["A x B"].mean == pytest.approx(3.0)
    assert found["A x C"].mean == pytest.approx(0.0, abs=1e-12)
    assert found["A x B x C"].mean == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(InputError, match="8 cells"):
        contrasts(("A", "B", "C"), {(True, True, True): seeds})


def test_one_seed_has_no_interval():
    with pytest.raises(InputError, match="two finite numbers or more"):
        t_interval([1.0])
    same = t_interval([2.0, 2.0, 2.0])
    assert (same.low, same.high) == (2.0, 2.0)
    assert effect([0.0, 0.0]).p == 1.0
    assert effect([1.0, 1.0]).p == 0.0


def test_tails_are_right_to_all_digits_however_small():
    stats = pytest.importorskip("scipy.stats")
    for t in (0.0, 0.7, 3.0, 40.0, 1e3):
        for freedom in (1, 4, 19):
            assert t_tail(t, freedom) == pytest.approx(stats.t.sf(t, freedom), rel=1e-9, abs=0.0)
