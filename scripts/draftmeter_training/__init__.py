"""A small language model that the project trains itself: text, tokenizer, training, export and an offline reference."""
