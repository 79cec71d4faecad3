"""Everything that is said about networks, plans and passes in words."""
