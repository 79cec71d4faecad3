"""Running networks at the algorithm's own speed: the plan, and how each library executes it."""
