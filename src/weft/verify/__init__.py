"""Is the network equal to its program? Exact evaluation in a finite field says."""

from weft.verify.certificate import Certificate
from weft.verify.check import verify

__all__ = ["Certificate", "verify"]
