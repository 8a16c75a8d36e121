"""The only room that talks to servers: boot, send, scrape, stop, leave records."""
