"""Any file of a server in, tidy tables out: logs, /metrics texts, study records, watched records, folders of them."""
