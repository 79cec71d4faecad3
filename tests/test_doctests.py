"""The examples in the API reference are executed."""

from __future__ import annotations

import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "name", ["network", "language.functions", "language.iterate", "model.layout", "exact.whole"]
)
def test_the_examples_of_a_module_show_what_they_print(name):
    module = importlib.import_module(f"inweave.{name}")
    found = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert found.attempted > 0
    assert found.failed == 0
