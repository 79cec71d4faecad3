"""The lowest versions that pyproject.toml allows, as constraints for pip.

`make test-lowest` installs exactly these and runs the test suite: a lower bound that nobody tried
is a guess. Names given as arguments are left out, for versions that cannot be had here.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

BOUND = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?>=([0-9.]+)")


def lowest(requirements: Iterable[str], left_out: Iterable[str] = ()) -> dict[str, str]:
    """Each name with its lower bound; of several, the highest one."""
    found: dict[str, str] = {}
    for requirement in requirements:
        match = BOUND.match(requirement)
        if match and match[1] not in left_out:
            name, bound = match.groups()
            found[name] = max(found.get(name, bound), bound, key=_number)
    return found


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def main() -> None:
    project = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"].values()
    tests = [x for x in project["dependency-groups"]["test"] if isinstance(x, str)]
    given = [*project["project"]["dependencies"], *(x for extra in extras for x in extra), *tests]
    for name, bound in sorted(lowest(given, sys.argv[1:]).items()):
        print(f"{name}=={bound}")


if __name__ == "__main__":
    main()
