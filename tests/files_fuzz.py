"""Random damage to `.inweave` files: `python -m tests.files_fuzz --count 10000`.

Three kinds: bytes (changed, removed, repeated, cut off), JSON fields changed without touching the
checksum, and JSON fields changed by someone who then computes checksum and fingerprint again; half
of the fields are of the program that a file holds. The
first two must be refused or leave the network as it was; the third may also describe another
network, which then must be exactly the one described. Anything but FileFormatError is a failure,
and so is allocating much more than the file holds.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

import inweave
from inweave import (
    AttentionLayer,
    BlockPointwiseLayer,
    DenseProjection,
    FileFormatError,
    Head,
    Layout,
    Module,
    Network,
    Piece,
    Place,
    PointwiseLayer,
    Projection,
    gallery,
)
from inweave.exact.constants import Dense, Ones, identity
from inweave.files import network_file
from inweave.files.network_file import KEY, Record
from inweave.model.relunet import Function, ReluNet
from inweave.network import as_public
from inweave.text.program import spelled
from tests.cases import CASES

MEMORY = 16 * 2**20  # for files of a few kilobytes

NASTY: list[Any] = [
    None, True, False, -1, 0, 1, 2, 3, 7, 2**31, 2**63, 10**400, 0.5, -0.0, float("nan"),
    float("inf"), "", "x", "1/0", "1e999999999", "-1/3", "0x1p9999", "nan", "inf", "\ud800", "relu",
    "A", "0" * 64, "9" * 5000, [], {}, [[]], [1, 2], [0, 0, 0, 0, 0],
    {"rows": 9, "cols": 9, "row": 0, "col": 0, "size": 9}, {"rows": 2**30, "cols": 2**30},
    {"body": [], "repeat": 1, "skip": False, "carries": []},
]  # fmt: skip


def encode(network: Network) -> bytes:
    """The bytes of a network's file."""
    record = network.record if network.origin is None else Record.of(network.origin)
    certificate = network.certificate or (network.claim and network.claim.certificate)
    return network_file.encode(network, record, certificate)


def decode(data: bytes) -> Network:
    """The network that a file's bytes hold."""
    network, record, claim = network_file.decode(data)
    return replace(as_public(network), record=record, claim=claim)


def every_kind() -> Network:
    """A small network that holds one of everything a file can hold."""
    layout = Layout.of({"A": (3, 2), "s": (2, 2), "out": (3, 2)})
    rng = np.random.default_rng(0)
    third = Dense(np.array([[Fraction(1, 3), Fraction(2)], [Fraction(-5, 7), Fraction(0)]]))
    piece = Piece(identity(2), 0, Fraction(-2, 3), "A")
    head = Head(
        Projection((piece, Piece(third, 2, block="s"), Piece(Ones(3, 2), 4))),
        DenseProjection(rng.normal(size=(6, 6)), rng.normal(size=(3, 6))),
        DenseProjection(np.array([[Fraction(i, 7) for i in range(6)]] * 6)),
    )
    exact = np.array([[[Fraction(i, 3)] * 6] * 3 for i in range(2)])
    components = (
        PointwiseLayer(*rng.normal(size=(4, 2, 3, 6)), skip=True),
        PointwiseLayer(exact, exact, exact, exact, activation="identity"),
        PointwiseLayer(*np.zeros((4, 0, 3, 6))),
    )
    net = ReluNet((1.0, -1.0), (0.0, 0.1), (1.0, 0.3), -0.0)
    function = Function("abs", net, (-1.0, 1.0), 0.25, True)
    applied = BlockPointwiseLayer(((Place("A", 2, 2, row=1), function),))
    place = Place("A", 3, 2)
    inner = Module((AttentionLayer((head,), skip=False), applied), 2, True, ((place,),))
    modules = (Module((AttentionLayer((head, head)), inner, *components), 3), Module(()))
    root = (("s", Fraction(1, 2)),)
    return Network(
        layout,
        modules,
        inputs=(inweave.Input("A", 3, 2), inweave.Input("s", kind="scalar", sign="positive")),
        fills=(
            inweave.Fill(place, "A", scale=root, coefficient=Fraction(2, 3)),
            inweave.Fill(Place("s", 1, 1, diagonal=2), "s"),
            inweave.Fill(Place("out", 2, 2, row=1), constant=third),
        ),
        outputs=(inweave.Output("y", place), inweave.Output("t", Place("s", 1, 1), "scalar")),
    )


def samples() -> list[bytes]:
    """Files of every kind of network, small enough to be fuzzed quickly."""
    chosen = [c for c in CASES if c.name in ("ridge_gd", "constant_factors", "nested")]
    networks = [inweave.compile(c.program, **c.sizes) for c in chosen]
    networks.append(gallery.get("lasso_ista").compile(n=4, d=2, steps=3))
    return [encode(network) for network in (*networks, every_kind())]


# -- damage ----------------------------------------------------------------------------------------
def damaged_bytes(data: bytes, rng: random.Random) -> bytes:
    """Bytes changed, removed, repeated, inserted or cut off."""
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 8])):
        at = rng.randrange(len(out)) if out else 0
        if rng.random() < 0.3:
            at = min(at, rng.randrange(16))
        kind = rng.randrange(6)
        if kind == 0 and out:
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and out:
            out[at] = rng.choice([0, 32, 34, 44, 57, 91, 93, 123, 125, 255])
        elif kind == 2:
            del out[at:]
        elif kind == 3:
            del out[at : at + rng.randrange(1, 64)]
        elif kind == 4:
            out[at:at] = out[at : at + rng.randrange(1, 64)]
        else:
            out[at:at] = rng.randbytes(rng.randrange(1, 16))
    return bytes(out)


def spots(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) of a JSON value."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from spots(value[key])


def damaged_field(description: dict[str, Any], rng: random.Random) -> None:
    """One field replaced, moved, copied, renamed or removed."""
    container, key = rng.choice(list(spots(description)))
    other, place = rng.choice(list(spots(description)))
    kind = rng.randrange(6)
    if kind == 0:
        container[key] = rng.choice(NASTY)
    elif kind == 1:
        container[key] = json.loads(json.dumps(other[place]))
    elif kind == 2 and isinstance(container[key], int) and not isinstance(container[key], bool):
        container[key] += rng.choice([-1, 1, 2, 1000, 2**40])
    elif kind == 3 and isinstance(container[key], list):
        container[key] = container[key] * rng.choice([0, 2, 50])
    elif kind == 4 and isinstance(container, dict):
        container[rng.choice(["extra", "\ud800", key + "x"])] = container.pop(key)
    else:
        del container[key]


def unpack(data: bytes) -> tuple[dict[str, Any], bytes]:
    size = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def pack(header: Any, rest: bytes) -> bytes:
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + rest


def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def sealed(description: dict[str, Any]) -> dict[str, Any]:
    """The description with checksum and fingerprint computed again, as an attacker would."""
    mark = hashlib.sha256(canonical(description.get("network"))).hexdigest()
    if "fingerprint" in description:
        description["fingerprint"] = mark
    if isinstance(description.get("certificate"), dict):
        description["certificate"]["network"] = mark
    description.pop("sha256", None)
    return {**description, "sha256": hashlib.sha256(canonical(description)).hexdigest()}


def corrupted(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    """A damaged file, and of which kind the damage is."""
    kind = rng.choice(["bytes", "header", "field", "sealed", "sealed", "sealed"])
    if kind == "bytes":
        return damaged_bytes(data, rng), kind
    header, rest = unpack(data)
    if kind == "header":
        damaged_field(header, rng)
        return pack(header, rest), kind
    description = json.loads(header["__metadata__"][KEY])
    graph = (description["record"] or {}).get("graph")
    for _ in range(rng.choice([1, 1, 2])):
        damaged_field(graph if graph and rng.random() < 0.5 else description, rng)
    if kind == "sealed":
        description = sealed(description)
    header["__metadata__"][KEY] = json.dumps(description)
    return pack(header, rest), kind


# -- what must hold --------------------------------------------------------------------------------
def check(original: bytes, data: bytes, kind: str) -> bool:
    """Whether a damaged file was loaded; AssertionError if it was loaded wrongly."""
    try:
        network = decode(data)
    except FileFormatError:
        return False
    if kind != "sealed":
        assert network == decode(original), "a damaged file was loaded as another network"
        assert encode(network) == original, "a damaged file was loaded with another record"
        return True
    header, _ = unpack(data)
    described = json.loads(header["__metadata__"][KEY])["network"]
    assert canonical(network.describe()) == canonical(described), "loaded is not what is described"
    assert decode(encode(replace(network))) == network
    program = network.stored_program
    if program is not None:
        spelled(program)
        assert encode(network) == encode(decode(encode(network)))
    return True


def fuzz(count: int, seed: int = 0) -> dict[str, int]:
    """Damage `count` files: how many were refused, how many loaded, the largest allocation."""
    files = samples()
    rng = random.Random(seed)
    found = {"refused": 0, "loaded": 0, "memory": 0}
    for i in range(count):
        original = files[i % len(files)]
        data, kind = corrupted(original, rng)
        if rng.random() < 0.1:
            tracemalloc.start()
        try:
            loaded = check(original, data, kind)
        except BaseException as error:
            error.add_note(f"corruption {i} of seed {seed}, kind {kind}")
            raise
        finally:
            if tracemalloc.is_tracing():
                found["memory"] = max(found["memory"], tracemalloc.get_traced_memory()[1])
                tracemalloc.stop()
        found["loaded" if loaded else "refused"] += 1
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = int(time.time()) if options.seed is None else options.seed
    found = fuzz(options.count, seed)
    print(
        f"{options.count} corruptions, seed {seed}: {found['refused']} refused, "
        f"{found['loaded']} loaded as described, "
        f"at most {found['memory'] / 2**20:.1f} MiB allocated"
    )
    if found["memory"] > MEMORY:
        raise SystemExit("a file asked for too much memory")


if __name__ == "__main__":
    main()
