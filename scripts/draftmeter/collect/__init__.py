"""Any file of a server in, tidy tables out: logs, /metrics texts, records, folders of them."""
