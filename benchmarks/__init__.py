"""inweave beside hand-written code, as ratios measured in one run.

`make bench` runs every family of rows in a process of its own, once per number of threads, and
writes a table to the terminal, `results/cpu.json` and `results/cpu.png`. Inside a family, inweave
and what it is compared with take turns, so that a busy moment of the machine hits both; a ratio is
the median over turns, with quartiles. `by_hand` is what a good programmer writes without inweave.
"""
