"""`inweave verify`: is this network equal to its program?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

import inweave
from inweave.cli import output
from inweave.cli.options import Json, Mode, Sizes, Source, Target, check_seconds
from inweave.cli.sources import chosen, find, find_program, only_for_programs, settings, users_code
from inweave.errors import InputError, VerificationError

if TYPE_CHECKING:
    from inweave.proof.certificate import Certificate


def verify(
    source: Source,
    /,
    *sizes: Sizes,
    program: Annotated[
        str | None,
        Parameter(help="FILE.py:NAME or a gallery name, to check a .inweave file against."),
    ] = None,
    target: Target = None,
    optimize: Mode = None,
    trials: Annotated[
        int | None,
        Parameter(
            help="Compare at random points of finite fields instead of a proof by algebra: at so "
            "many, or more until a wrong network passes with probability below 1e-12."
        ),
    ] = None,
    seed: Annotated[
        int | None,
        Parameter(help="Compare at the random points of this seed instead of a proof by algebra."),
    ] = None,
    seconds: Annotated[
        float, Parameter(help="That comparing at random points may take, about.")
    ] = 60.0,
    json: Json = False,
) -> int:
    """Check a network against its program, by algebra or at random points of a field.

    A .inweave file holds its program as data, which `inweave show` prints: the network is checked
    against that, or against a program of your own. The certificate in a file is a claim, and counts
    for nothing here. Where algebra would take too many words, the two are compared at random points
    of finite fields. Exit code 0 only if the two were found equal now, 1 if not.

    For example:

        inweave verify ridge.inweave

        inweave verify ridge.inweave --program examples/ridge.py:ridge

        inweave verify ridge_gd n=40 d=10 steps=100 --trials 5
    """
    if trials is not None and trials < 1:
        raise InputError(f"--trials must be at least 1, got {trials}")
    if seed is not None and seed < 0:
        raise InputError(f"--seed must be 0 or more, got {seed}")
    check_seconds(seconds)
    options = chosen(target=target, optimize=optimize)
    how = {"trials": trials, "seed": seed, "seconds": seconds}
    try:
        with output.stages(1) as begin:
            begin(f"verifying {source}")
            certificate = _check(source, settings(sizes), program, options, how)
    except VerificationError as error:
        if json:
            output.say_json({"verified": False, "reason": str(error)})
        else:
            output.complain(str(error))
        return 1
    if json:
        output.say_json({"verified": True, "certificate": vars(certificate)})
    else:
        output.say(certificate)
    return 0


def _check(
    source: str,
    given: dict[str, Any],
    program: str | None,
    options: dict[str, Any],
    how: dict[str, Any],
) -> Certificate:
    from inweave.proof.certificate import UNCHECKED

    found = find(source)
    if not isinstance(found, inweave.Network):
        if program is not None:
            raise InputError("--program goes with a .inweave file; here the source is a program")
        with users_code(found):
            return inweave.compile(found, verify=False, **options, **given).verify(**how)
    only_for_programs(source, options)
    if program is not None:
        reference = find_program(program)
        known = found.record.sizes if found.record else {}
        takes = (*reference.size_names, *reference.statics)
        sizes = {name: value for name, value in known.items() if name in takes} | given
        with users_code(reference):
            return inweave.verify(reference, found, **how, **sizes)
    if given:
        raise InputError("sizes go with --program FILE.py:NAME; the file alone needs none")
    if found.stored_program is not None:
        return found.verify(**how)
    recorded = "" if found.claim is None else f"; its certificate is {UNCHECKED}"
    raise VerificationError(
        f"{source} holds no program to check its network against{recorded}: "
        "add --program FILE.py:NAME"
    )
