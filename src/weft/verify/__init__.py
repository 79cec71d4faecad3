"""Is the network equal to its program? Exact evaluation in a finite field says."""
