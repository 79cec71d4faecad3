"""What is stored although no one asked: the one rule that keeps compiling short.

This is no pass of its own but a part of `normalize`: written out first and stored afterwards,
repeated squaring would have been 2^k factors long on the way.

Nothing has to be stored to be multiplied: a product takes in the factors of the products that it
multiplies, and the scheduler finds the shallowest tree over all of them. A value that is read once
may be taken in, because its factors then stand in one place. A value that is read more often is
copied into every reader, and readers of readers copy the copies: k times `s = s * s` would have 2^k
factors. So the size of everything that is compiled is kept within a fixed multiple of the program's
own length:

- A product of `FACTORS` factors or more that is read more than once is stored, as if the program
  had said `inweave.hold`. Repeated squaring then stores every sixth square: 64 factors fill a tree
  of four layers (3^4 = 81) nearly as well as 2^19 would fill one of twelve.
- A product of `LONGEST` factors is stored even if it is read once. That is not for its size but for
  time: every step of a Python loop writes its product down, which takes the square of their number
  in all. 3^6 factors fill a tree of six layers.
- A sum of more than `PRODUCTS` products is stored, however often it is read.
- A product is multiplied out over its sums only if that makes at most `PRODUCTS` products, and is
  not even tried where it makes more than `TRIED` before equal ones are added up.

Everything else that a pass does with a value it does once, however many readers the value has.
"""

from __future__ import annotations

from inweave.compiler.forms import Form

FACTORS = 64
LONGEST = 729
PRODUCTS = 8
TRIED = 64


def is_stored(form: Form, often: bool) -> bool:
    """Whether a value is stored at once; `often` says that it is read more than once."""
    return len(form.products) > PRODUCTS or form.factors >= (FACTORS if often else LONGEST)
