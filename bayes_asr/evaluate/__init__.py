"""Error counts, statistics between systems, tables and pages."""
