"""What a user writes: programs, and the expressions that they record."""
