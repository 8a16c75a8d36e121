"""The only room that knows the formats of vLLM: records in, tidy tables and cross-checks out."""
