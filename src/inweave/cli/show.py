"""`inweave show`: a network in words."""

from __future__ import annotations

from typing import Any

from inweave.cli import output
from inweave.cli.options import Json, Mode, Sizes, Source, Target
from inweave.cli.sources import compiled, find, settings
from inweave.errors import InputError
from inweave.network import Network
from inweave.proof.degree import degree_text, lower_bound


def show(
    source: Source,
    /,
    *sizes: Sizes,
    target: Target = "elsa",
    optimize: Mode = "faithful",
    json: Json = False,
) -> None:
    """Print a network: its prompt, its layers as matrix products, and its certificate.

    For example:

        inweave show ridge.inweave

        inweave show ridge.py:ridge_gd n=40 d=10 steps=100 --json
    """
    network = network_of(source, sizes, target, optimize)
    if json:
        output.say_json(report(network))
        return
    output.say(network)
    if network.certificate is not None:
        output.say()
        output.say(network.certificate)


def network_of(source: str, sizes: tuple[str, ...], target: str, optimize: str) -> Network:
    """The network of a file, or of a program compiled at these sizes."""
    found = find(source)
    if not isinstance(found, Network):
        return compiled(found, target=target, optimize=optimize, sizes=settings(sizes))
    if sizes:
        raise InputError(f"{source} has its sizes already; leave out {' '.join(sizes)}")
    return found


def report(network: Network) -> dict[str, Any]:
    """What a program would want to know of a network."""
    certificate = network.certificate
    data: dict[str, Any] = {
        "target": network.target,
        "depth": network.depth,
        "heads": network.heads,
        "tokens": network.tokens,
        "width": network.width,
        "stored_numbers": network.stored_numbers,
        "inputs": {spec.name: list(spec.shape) for spec in network.inputs},
        "outputs": {out.name: out.kind for out in network.outputs},
        "blocks": {b.name: [b.rows, b.cols] for b in network.layout},
        "fingerprint": network.fingerprint,
    }
    data |= {"degree": None, "depth_lower_bound": None}
    degree = network.known_degree()
    if degree is not None and degree[1]:
        exact = degree[0] if degree[0] < 2**63 else degree_text(degree[0])
        data |= {"degree": exact, "depth_lower_bound": lower_bound(degree[0])}
    data["certificate"] = None if certificate is None else vars(certificate)
    return data
