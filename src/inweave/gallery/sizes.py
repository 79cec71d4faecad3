"""The names of sizes, as type variables: what type checkers need to follow shapes."""

from typing import TypeVar

d = TypeVar("d")
e = TypeVar("e")
k = TypeVar("k")
m = TypeVar("m")
n = TypeVar("n")
t = TypeVar("t")
v = TypeVar("v")
