"""That a network equals its program, how sure that is, and how deep a network must be."""
