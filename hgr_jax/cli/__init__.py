"""The command line: what it computes, prints and writes."""
