"""The gallery: in-context algorithms of the literature, each one program, each verified.

`inweave.gallery.ridge_gd` is a program, to call or to compile; `inweave.gallery.get("ridge_gd")` is
its entry, with its source, example data and a reference that does not use inweave. One file per
family: they are read when the gallery is first asked for something.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from inweave.errors import InputError, did_you_mean
from inweave.gallery.entry import Entry, difference
from inweave.language.program import Program

FAMILIES = {
    "least_squares": "Least squares and ridge",
    "examples_as_tokens": "Examples as tokens",
    "higher_order": "Higher order",
    "closed_forms": "Closed forms",
    "sparse": "Sparse and generalised",
    "selection": "Algorithm selection",
    "beyond": "Beyond regression",
    "soft": "Soft extraction",
    "linear_attention": "Linear attention that looks back",
    "fast_weights": "Fast weights",
    "filtering": "Filtering",
    "kernels": "Kernels",
    "clustering": "Mixtures and transport",
    "networks": "Networks in context",
}

__all__ = ["FAMILIES", "Entry", "difference", "entries", "get", "names", "run", "table"]


@cache
def entries() -> tuple[Entry, ...]:
    """Every entry, family by family."""
    modules = [import_module(f"{__name__}.{family}") for family in FAMILIES]
    return tuple(entry for module in modules for entry in module.ENTRIES)


def names() -> list[str]:
    """The names of all entries."""
    return [entry.name for entry in entries()]


def get(name: str) -> Entry:
    """An entry by its name."""
    for entry in entries():
        if entry.name == name:
            return entry
    known = names()
    meant = did_you_mean(name, known)
    raise InputError(f"no {name!r} in the gallery; {meant}it has {', '.join(known)}")


def row(entry: Entry) -> dict[str, Any]:
    """An entry's line in the table. Degree and bound are those of polynomials, otherwise None."""
    network = entry.compile()
    polynomial = network.is_polynomial
    return {
        "name": entry.name,
        "family": entry.family,
        "source": entry.source,
        "depth": network.depth,
        "heads": network.heads,
        "width": network.width,
        "degree": network.degree if polynomial else None,
        "bound": network.depth_lower_bound if polynomial else None,
        "verified": network.certificate is not None,
    }


def table() -> list[dict[str, Any]]:
    """Every entry, compiled and verified at its own sizes."""
    return [row(entry) for entry in entries()]


def run(name: str) -> dict[str, Any]:
    """An entry on its example data: network, certificate, answer, reference, their difference."""
    entry = get(name)
    network, inputs = entry.compile(), entry.example()
    answer, expected = network(**inputs), entry.reference(**inputs)
    return {
        "entry": entry,
        "network": network,
        "certificate": network.certificate,
        "inputs": inputs,
        "answer": answer,
        "reference": expected,
        "difference": difference(answer, expected),
    }


def __getattr__(name: str) -> Program:
    if not name.startswith("_"):
        for entry in entries():
            if entry.name == name:
                return entry.program
    raise AttributeError(f"the gallery has no {name!r}; it has {', '.join(names())}")


def __dir__() -> list[str]:
    return sorted([*__all__, *names()])
