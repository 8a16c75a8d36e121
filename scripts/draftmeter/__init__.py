"""draftmeter measures speculative decoding where it runs."""
