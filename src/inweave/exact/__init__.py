"""Exact numbers, and what they are computed with.

Constant matrices held as what they are, the arithmetics in which programs and networks are
evaluated (floating point of any array library, rationals, a finite field), and the field itself.
"""
