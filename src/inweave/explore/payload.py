"""Everything the page shows, as one JSON-able value.

Arrays travel as base64 of little-endian typed arrays. The page computes the rest itself: states
from the recorded changes, a head's query, key and value from the state and the head's pieces,
curves from the states. Nothing is stored that can be derived, so the size of a page grows with what
changes, not with depth times prompt. A network with an embedding is shown as the plain one that it
is in the basis of its blocks, where columns have names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from inweave.errors import InputError
from inweave.explore.pack import Packer
from inweave.explore.prompts import prompts_of
from inweave.explore.record import record
from inweave.explore.references import references
from inweave.explore.shown import Shown
from inweave.explore.story import Chapter, packed
from inweave.model.cost import check_layers, executed
from inweave.model.network import Network
from inweave.version import __version__

VERSION = 2
# Sizes in the page, that is, in base64.
EXACT_BYTES = 3_000_000  # states in float64 up to here, in float32 beyond
MOST_BYTES = 60_000_000  # and no page larger than about this
PAGE_BYTES = 4_600_000  # dense weights take what states leave of this,
WEIGHT_BYTES = 1_500_000  # and no more than this; heads beyond are shown without their parts
MOST_WORK = 10**12  # operations, about, of a run that is watched: minutes


def payload(
    shown: Mapping[str, Shown],
    inputs: Mapping[str, Any],
    reference: Any = None,
    story: Sequence[Chapter] = (),
) -> dict[str, Any]:
    """What the page needs to show these networks on the same inputs, and to tell a story."""
    if not shown:
        raise InputError("there is no network to explore")
    networks = {name: one.network for name, one in shown.items()}
    for net in networks.values():
        _check_cost(net)
    note, prompts = prompts_of(networks, inputs)
    hidden = [name for name, net in networks.items() if net.embedding is not None]
    if hidden:
        who = "shown" if len(networks) == 1 else " and ".join(hidden)
        note += f"; {who} in the basis of the blocks, which an embedding hides"
    answers = references(shown, {name: own.inputs for name, own in prompts.items()}, reference)
    recordings, size = {}, 0
    for name, net in networks.items():
        recordings[name] = kept = record(net.plain, prompts[name].prompt, MOST_BYTES // 4)
        size += _encoded(kept.numbers + kept.first.size)
        _check_size(size)
    short = size > EXACT_BYTES
    left = min(WEIGHT_BYTES, PAGE_BYTES - (size // 2 if short else size)) // len(networks)
    data = {
        "version": VERSION,
        "inweave": __version__,
        "inputs": note,
        "networks": [
            Packer(name, one, recordings[name], short, left).pack(answers[name], prompts[name])
            for name, one in shown.items()
        ],
        "story": packed(story, list(shown.values())),
    }
    return unicode(data)  # type: ignore[no-any-return]


def _check_cost(network: Network) -> None:
    """Refuse what no page can show, before anything of it is computed."""
    area = network.tokens * network.width
    check_layers(network, "the explorer")
    _check_size(_encoded(area))
    work = 2 * executed(network) * area * min(network.tokens, network.width)
    if work > MOST_WORK:
        raise InputError(
            f"watching this network would take about {work:.0e} operations, at most "
            f"{MOST_WORK:.0e} are allowed; explore fewer steps or a smaller prompt"
        )


def _encoded(numbers: int) -> int:
    """The bytes of so many numbers in float64."""
    return 8 * numbers * 4 // 3


def _check_size(size: int) -> None:
    if size > 2 * MOST_BYTES:
        raise InputError(
            f"the states would take {size // 2_000_000} MB or more even in single precision, more "
            f"than a page can hold ({MOST_BYTES // 1_000_000} MB); explore fewer steps or a "
            "smaller prompt"
        )


def unicode(data: Any) -> Any:
    """The same data with `\ufffd` for each lone surrogate, which no encoding can write."""
    if isinstance(data, str):
        return data if data.isascii() else re.sub("[\ud800-\udfff]", "\ufffd", data)
    if isinstance(data, dict):
        return {unicode(key): unicode(value) for key, value in data.items()}
    return [unicode(value) for value in data] if isinstance(data, (list, tuple)) else data
