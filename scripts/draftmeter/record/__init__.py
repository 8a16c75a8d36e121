"""What is left behind: the record of a run, of a watched server, and where both come from."""
