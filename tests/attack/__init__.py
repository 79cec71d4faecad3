"""Attacks on every door: `make attack`, `python -m tests.attack --only kills --count 100 --seed 7`.

Each door is a function of a number of tries and a source of chance, which raises at the first try
that breaks a promise and otherwise returns what happened how often. The seed is printed before the
first try, so that whatever is found can be found again.
"""
