"""How far training is: logged, so that nobody between the loop and its reader hands it on.

`inweave lab` shows it, as a bar or as a line now and then. In Python a handler of the logger
`inweave.lab` at the level INFO hears it: the records have `done`, `steps` and `loss`.
"""

from __future__ import annotations

import logging

LOGGER = logging.getLogger("inweave.lab")


def tell(done: int, steps: int, loss: float) -> None:
    """So many steps are done; where a training begins there is no loss yet, and it is nan."""
    told = {"done": done, "steps": steps, "loss": loss}
    LOGGER.info("step %(done)d of %(steps)d, loss %(loss).5g", told, extra=told)
