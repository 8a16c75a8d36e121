"""Statistics as pure functions: arrays in, small frozen results out, no files."""
