"""Programs read back from networks: the compiler's way, backwards.

A network is followed once and what it does becomes statements (`reading`), these become Python
(`source`), and the program that Python then has is proved equal to the network with the same proof
as any other (`inweave.proof.check`). What is not proved is not handed out, so nothing here has to
be believed: the reader may guess, the proof may not.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from keyword import iskeyword
from unicodedata import normalize

from inweave.decompiler.copies import differences
from inweave.decompiler.reading import read
from inweave.decompiler.source import NAME, Line, source
from inweave.decompiler.statements import HeadAt, Read
from inweave.errors import DecompileError, InputError, VerificationError
from inweave.language.program import Program, Traced
from inweave.model.modules import Module
from inweave.model.network import Network
from inweave.proof.check import verify
from inweave.proof.merged import factored, merged
from inweave.proof.states import NotProved

TAKEN = ("inweave", "__debug__")  # by what a source needs, and by Python


def decompile(network: Network, *, seconds: float = 60.0) -> str:
    """The source of a program that a network computes, as Python.

    The program is called `algorithm`, has the network's inputs and answers, and is proved equal to
    the network before it is handed out; what cannot be read or proved is a DecompileError.
    `seconds` are allowed for the reading, and again for the proof where it has to compare at random
    points.

    >>> import inweave
    >>> from inweave import Matrix, Vector
    >>> @inweave.program
    ... def gradient(X: Matrix["n", "d"], y: Vector["n"], w: Vector["d"]) -> Vector["d"]:
    ...     return X.T @ (X @ w - y)
    >>> print(inweave.decompile(inweave.compile(gradient, n=4, d=2)))
    import inweave
    from inweave import Matrix, Vector
    <BLANKLINE>
    <BLANKLINE>
    @inweave.program
    def algorithm(X: Matrix[4, 2], y: Vector[4], w: Vector[2]) -> Vector[2]:
        return X.T @ (X @ w - y)
    <BLANKLINE>
    """
    return "\n".join([*(line.text for line in lines(network, seconds=seconds)), ""])


def lines(network: Network, *, seconds: float = 60.0) -> tuple[Line, ...]:
    """The lines of `decompile`, each with the heads that compute it.

    Layers are counted as they are stored, so that those of a loop have one number. A head that
    moves a value belongs to the line that reads it there, one that clears up after a step to the
    line that repeats the step, one that two lines need to both, and one that nothing needs to none.
    Heads to lines is the same the other way round:
    `[i for i, line in enumerate(lines(net)) if (2, 0) in line.heads]`.

    These are the lines of what the network does, also where the program that it was compiled from
    is known: only in them is everything that a head does, once, whatever became of the loops.

    >>> import inweave
    >>> from inweave import Matrix, Vector
    >>> @inweave.program
    ... def gradient(X: Matrix["n", "d"], y: Vector["n"], w: Vector["d"]) -> Vector["d"]:
    ...     return X.T @ (X @ w - y)
    >>> lines(inweave.compile(gradient, n=4, d=2))[-1].heads
    (HeadAt(layer=0, head=0), HeadAt(layer=0, head=1))
    """
    if not isinstance(network, Network):
        kind = type(network).__name__
        raise InputError(
            f"decompile reads a Network, got {kind}; inweave.load reads one from a file"
        )
    _check_names(network)
    try:
        return _read_back(network, seconds)
    except DecompileError as error:
        if not (where := differences(network)):
            raise
        raise DecompileError(f"{error}; {where}") from error


def _read_back(network: Network, seconds: float) -> tuple[Line, ...]:
    """The lines of what a network does, as one would say it where that is proved."""
    apart, together = map(_placed, _without_disguise(network))
    found = read(apart, seconds)
    if source(apart, found) != source(apart, found, idioms=False):
        with suppress(DecompileError):  # where a scan is not proved, a loop may be
            return _proved(together, found, True, seconds)
    return _proved(together, found, False, seconds)


def _without_disguise(network: Network) -> tuple[Network, Network]:
    """The network without an embedding twice: with the heads that it has, and with fewer."""
    if network.embedding is None:
        return network, network
    try:
        apart = factored(network)
        return apart, merged(apart)
    except NotProved:  # it would take long
        return network.plain, network.plain


def _proved(network: Network, found: Read, idioms: bool, seconds: float) -> tuple[Line, ...]:
    """A source that is proved, with or without idioms."""
    text = source(network, found, idioms=idioms)
    traced = _traced(text)
    kinds = {output.name: output.kind for output in network.outputs}
    if {name: traced.kinds[name] for name in traced.outputs} != kinds:
        text = source(network, found, traced.kinds, idioms)
        traced = _traced(text)
    try:
        verify(NAME, traced, network, seconds=seconds)
    except VerificationError as error:  # whose advice is for those who call verify themselves
        said = str(error).removesuffix("; compile with verify=False to have it unproved")
        said = said.replace("call net.verify(", "call inweave.decompile(net, ")
        raise DecompileError(f"the program that was read back is not proved: {said}") from error
    return text


def _check_names(network: Network) -> None:
    """Refuse inputs that no argument can be called after: their names stand in what is run."""
    for name in (spec.name for spec in network.inputs):
        if not name.isidentifier() or iskeyword(name) or name in TAKEN:
            raise DecompileError(
                f"no argument of a source can be called {name!r}, as an input of this network is: "
                "it is a word of Python, or what the source imports; rename the input"
            )
        if normalize("NFKC", name) != name:
            raise DecompileError(
                f"Python would read the input {name!r} as {normalize('NFKC', name)!r}: no argument "
                "of a program can be called so"
            )


def _placed(network: Network) -> Network:
    """The same network; what its modules are said to carry, but do not store, is not said."""

    def placed(module: Module) -> Module:
        body = (placed(part) if isinstance(part, Module) else part for part in module.body)
        carries = tuple(places for places in module.carries if places)
        return replace(module, body=tuple(body), carries=carries)

    return replace(network, modules=tuple(map(placed, network.modules)))


def _traced(found: tuple[Line, ...]) -> Traced:
    """The program of a source, recorded."""
    text = "\n".join(line.text for line in found)
    space: dict[str, object] = {"__name__": "inweave_decompiled"}
    try:
        exec(compile(text, f"<{NAME}>", "exec"), space)
        program = space[NAME]
        assert isinstance(program, Program)
        return program.trace()
    except Exception as error:  # an input may be called np
        raise DecompileError(f"what was read back is no program: {error}") from error


__all__ = ["HeadAt", "Line", "decompile", "lines"]
