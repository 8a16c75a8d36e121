"""The only room that knows what an engine prints: text in, numbers out; no records, no study, no pandas, no network."""
