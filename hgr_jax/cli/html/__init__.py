"""The report of a scan: one HTML file with its scripts, to open in any browser."""
