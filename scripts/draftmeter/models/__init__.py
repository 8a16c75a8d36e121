"""Model checkpoints that the study writes itself, with what is known about them."""
