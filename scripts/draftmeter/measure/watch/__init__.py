"""Record a live server, read-only: its counters at a steady pace and the statistics lines of its
log.
"""
