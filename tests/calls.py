"""Counting calls from outside: a function that counted its own would be one with memory."""

from __future__ import annotations

import sys


def calls_of(function, run):
    """How often a function is called while something runs."""
    calls = 0

    def count(frame, event, _):
        nonlocal calls
        calls += event == "call" and frame.f_code is function.__code__

    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(None)
    return calls
