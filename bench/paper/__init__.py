"""The paper's detection experiments: ``python -m bench.paper NAME [--quick] [--out DIR]``.

Every experiment writes a figure, its data as CSV, and a line on what it shows.
"""
