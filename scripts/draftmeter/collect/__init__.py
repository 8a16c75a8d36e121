"""Records and stored files in, tidy tables and cross-checks out."""
