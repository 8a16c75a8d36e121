"""The only room that knows templates: estimates in, table, figure and note out."""
