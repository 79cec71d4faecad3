"""Circuits with ground truth: certified networks whose every head is known, to test methods on.

`inweave circuits build OUT` makes a suite from a seed; `load` reads one of its models, and `check`
makes it again to compare. `suite` says which models there are, `generated` draws programs, `build`
makes and writes them, with a card in words, `baselines` measures what simple methods find.
`disguise` hides how a network computes and keeps its certificate.
"""

from __future__ import annotations

from inweave.circuits.build import build, check
from inweave.circuits.disguise import At, Disguise, disguise
from inweave.circuits.load import Model, load, models

__all__ = ["At", "Disguise", "Model", "build", "check", "disguise", "load", "models"]
