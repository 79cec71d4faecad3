"""Verification: a network against a program, and the certificate of their equality.

Here is only what is asked and what is concluded. How the two are compared is in `field_check`, how
sure that is in `heights`, what it costs in `cost`, what rounding adds in `floats`, and where a
wrong network goes wrong in `diagnosis`.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np

from inweave.errors import ProgramError, VerificationError
from inweave.exact.field import LEAST, Field, random_prime
from inweave.exact.field_arithmetic import FieldArithmetic
from inweave.exact.whole import is_whole
from inweave.language import expressions as ex
from inweave.language.program import Program, Traced
from inweave.model.layers import BlockPointwiseLayer, Layer
from inweave.model.network import Network
from inweave.model.relunet import Function
from inweave.proof import tables
from inweave.proof.certificate import Certificate
from inweave.proof.diagnosis import first_layer
from inweave.proof.field_check import FieldCheck, Mismatch
from inweave.proof.floats import float_difference
from inweave.proof.heights import checked_height
from inweave.proof.tables import reciprocal_error
from inweave.run.plan import Plan

UNSURE = 1e-3  # a larger chance of passing by accident is no certificate
MOST_TRIALS = 100  # more are not worth asking for
UNLUCKY = 8  # draws at which something is divided by zero, before that is taken for certain


def verify(
    name: str,
    traced: Traced,
    network: Network,
    *,
    trials: int = 2,
    seed: int | None = None,
    plan: Plan | None = None,
    reference: Callable[[], Network] | None = None,
) -> Certificate:
    """Check a network against a recorded program; a Certificate, or VerificationError.

    `plan` is the network's where there is one already. `reference` compiles the program again, to
    say where a wrong network parts from a right one.
    """
    compatible(name, traced, network)
    if not is_whole(trials, 1):
        raise ProgramError(f"verification needs at least one trial, got {trials!r}")
    if seed is not None and not is_whole(seed, 0):
        raise ProgramError(f"the seed of a verification is a whole number from 0 on, got {seed!r}")
    trials, seed = int(trials), secrets.randbelow(2**32) if seed is None else int(seed)
    notes, limits = function_notes(traced), conditions(traced, network)
    try:
        method, height, prime = compared(traced, network, trials, seed, name, reference, True)
    except VerificationError:
        if not reciprocals(traced):
            raise
        method, height, prime = compared(traced, network, trials, seed, name, reference, False)
        notes = own_tables(name, traced, network)
        limits.append("with 1/x in place of every reciprocal")
    probability = float((min(height, LEAST) / LEAST) ** trials)  # a degree may pass any float
    if probability > UNSURE:
        raise VerificationError(
            f"no difference between network and program {name!r} was found, but that "
            f"proves nothing: their degree may reach {_rounded(height)}, and a wrong network would "
            f"pass with probability up to {probability:.2g}. {_remedy(traced, height)}; compile "
            "with verify=False to have it unproved"
        )
    return Certificate(
        program=name,
        network=network.fingerprint,
        method=method,
        prime=prime,
        seed=seed,
        trials=trials,
        degree=height,
        probability=probability,
        float_difference=float_difference(traced, plan or Plan(network)),
        functions=tuple(notes),
        conditions=tuple(limits),
    )


def _rounded(height: int) -> str:
    return f"{height:.3g}" if height < 10**300 else f"{Decimal(height):.3g}"


def _remedy(traced: Traced, height: int) -> str:
    """What makes a proof out of a check that proves nothing, because the degree is too large."""
    if height < LEAST:
        enough = math.ceil(math.log(UNSURE) / math.log(height / LEAST))
        if enough <= MOST_TRIALS:
            return f"Ask for more trials: {enough} are enough, as in net.verify(trials={enough})"
    if any(isinstance(x, ex.LoopResult) for x in ex.every(traced.outputs.values())):
        return (
            'Compile with optimize="faithful", which keeps loops, and write every repetition with '
            "inweave.iterate: a loop is proved one step at a time"
        )
    return "Write the repetition with inweave.iterate, which is proved one step at a time"


def compared(
    traced: Traced,
    network: Network,
    trials: int,
    seed: int,
    name: str,
    reference: Callable[[], Network] | None,
    opaque: bool,
) -> tuple[str, int, int]:
    """How program and network were found equal, the degree of what was compared, the least prime.

    Every trial has a prime of its own, drawn like the point. `opaque` takes a reciprocal for a
    function of which nothing is known, which keeps degrees small. A compiled network equals its
    program even so; another one may need that it is an inverse.
    """
    rng, check = np.random.default_rng(seed), FieldCheck(traced, network)
    least = 2**31
    for trial in range(trials):
        for _ in range(UNLUCKY):
            prime = random_prime(rng)
            arithmetic = FieldArithmetic(Field(prime), seed + trial, opaque)
            try:
                found = check.at_random(arithmetic, rng)
                if found is not None and reference is not None:
                    found = Mismatch(f"{found}{first_layer(network, reference(), arithmetic, rng)}")
                break
            except ZeroDivisionError:  # the prime divides a denominator, or a pivot was drawn as 0
                continue
        else:
            raise VerificationError(
                f"program {name!r} divides by zero at {UNLUCKY} random points, so by what is zero "
                "everywhere"
            )
        if found is not None:
            raise VerificationError(f"network and program {name!r} differ: {found}")
        least = min(least, prime)
    return check.method, checked_height(traced, network, check.pairs, opaque), least


def trace_for(program: Program, network: Network, sizes: Mapping[str, Any]) -> Traced:
    """The program at the network's own sizes."""
    found = dict(sizes)
    for spec in network.inputs:
        kind = program.arguments.get(spec.name)
        if kind is None:
            continue
        for size, value in zip(kind.sizes, (spec.rows, spec.cols), strict=False):
            if isinstance(size, str):
                found.setdefault(size, value)
    return program.trace(**found)


def compatible(name: str, traced: Traced, network: Network) -> None:
    """Refuse a network whose inputs or answers are not the program's, by name, kind and shape."""
    taken = {spec.name: _said(spec.kind, spec.rows, spec.cols) for spec in network.inputs}
    wanted = {spec.name: _said(spec.kind, spec.rows, spec.cols) for spec in traced.inputs}
    given = {o.name: _said(o.kind, *o.place.value_shape) for o in network.outputs}
    owed = {key: _said(traced.kinds[key], *x.shape) for key, x in traced.outputs.items()}
    for verb, theirs, ours in (("takes", wanted, taken), ("answers", owed, given)):
        if theirs != ours:
            raise VerificationError(
                f"program {name!r} {verb} {_listed(theirs)}; the network {verb} {_listed(ours)}"
            )


def _said(kind: str, rows: int, cols: int) -> str:
    return {"scalar": "a scalar", "vector": f"a vector of {rows}"}.get(
        kind, f"a {rows} x {cols} matrix"
    )


def _listed(values: Mapping[str, str]) -> str:
    named = [f"{name} ({what})" if name else what for name, what in values.items()]
    return ", ".join(named) or "nothing"


def conditions(traced: Traced, network: Network) -> list[str]:
    """Where equality is claimed, if not everywhere: signs that the network asks of its inputs."""
    free = {spec.name for spec in traced.inputs if spec.sign == "any"}
    return [
        f"for {spec.sign} {spec.name}"
        for spec in network.inputs
        if spec.sign != "any" and spec.name in free
    ]


# -- functions ------------------------------------------------------------------------------------
def functions(traced: Traced) -> list[Function]:
    """The functions that a program applies."""
    every = ex.every(traced.outputs.values())
    return [x.function for x in every if isinstance(x, ex.Applied)]


def reciprocals(traced: Traced) -> list[Function]:
    return [function for function in functions(traced) if function.is_reciprocal]


def function_notes(traced: Traced) -> list[str]:
    """What is known of the program's functions: a network that is equal has the same tables."""
    return [note for note in dict.fromkeys(f.note() for f in functions(traced)) if note]


def own_tables(name: str, traced: Traced, network: Network) -> list[str]:
    """What is known of a network's own tables of 1/x; refused if the program's are better.

    With the field's inverse for every reciprocal only the wiring is compared: neither the table
    nor Newton's steps after it are seen. So a table must by itself be as good as what the program
    reaches, wherever the program may use it.
    """
    asked = [(f.domain or (0.0, math.inf), f.reached if f.steps else f.error)
             for f in reciprocals(traced)]  # fmt: skip
    low, high = min(d[0] for d, _ in asked), max(d[1] for d, _ in asked)
    least = min(error for _, error in asked)
    notes = [f.note() for f in functions(traced) if not f.is_reciprocal]
    for function in dict.fromkeys(f for layer in network.layers for f in _applied(layer)):
        if not function.is_reciprocal:
            continue
        start, stop = function.domain or (0.0, math.inf)
        error = math.inf
        if 0 < start <= low <= high <= stop < math.inf:
            error = reciprocal_error(function.net, start, stop)
        if error > least:
            raise VerificationError(
                f"network and program {name!r} would be equal if every reciprocal were exactly "
                f"1/x, but the network's table of {function.name} on [{start:g}, {stop:g}] is "
                f"wrong by up to {error:.1e} of 1/x on the program's domain [{low:g}, {high:g}], "
                f"and the program reaches {least:.1e}; compile the program itself"
            )
        notes.append(tables.note(function, error))
    return [note for note in dict.fromkeys(notes) if note]


def _applied(layer: Layer) -> list[Function]:
    return [f for _, f in layer.applied] if isinstance(layer, BlockPointwiseLayer) else []
