"""The paper's experiments: ``python -m bench.paper NAME [--quick] [--out DIR]``.

Every experiment writes a figure, its data as CSV, and a line on what it shows.
"""

import os

# Many small factorisations in turn: threads of OpenBLAS would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
