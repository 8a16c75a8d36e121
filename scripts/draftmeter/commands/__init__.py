"""The commands of `draftmeter`. They stand above all rooms and join them; no room knows a command."""
