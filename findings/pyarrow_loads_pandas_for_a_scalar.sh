#!/bin/sh
# Where pandas is installed, pyarrow loads it, which takes a quarter of a
# second or so, as soon as any value of Python is made into Arrow: pa.scalar("") and
# pa.array([1.0]) do, as do arguments of compute functions that are not Arrow,
# and to_numpy on the way back. Nothing of pandas is in any of them. Arrays
# made from buffers, parts of them, and their lists do without; so does what
# DuckDB returns as an Arrow table.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet \
    duckdb==1.4.2 numpy==2.3.5 pandas==2.3.3 pyarrow==22.0.0

cat > "$folder/loaded.py" <<'PYTHON'
import subprocess
import sys

START = """
import sys
import duckdb, numpy as np, pyarrow as pa, pyarrow.compute as pc
numbers = pa.Array.from_buffers(pa.float64(), 2, [None, pa.py_buffer(np.array([1.0, 2.0]))])
assert "pandas" not in sys.modules
"""
for code in (
    "pa.scalar('')",
    "pa.array([1.0])",
    "pa.array(np.array([1.0]))",
    "pc.equal(numbers, 1.0)",
    "numbers.to_numpy()",
    "numbers[1:].to_pylist()",
    "pc.add(numbers, numbers)",
    "duckdb.sql('select 1 as a').arrow()",
):
    shown = f"{START}\n{code}\nprint('loads pandas' if 'pandas' in sys.modules else 'does not')"
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)
    print(f"{code}: {done.stdout.strip()}")
PYTHON
"$folder/venv/bin/python" "$folder/loaded.py" > "$folder/seen"
cat "$folder/seen"

cat > "$folder/expected" <<'TEXT'
pa.scalar(''): loads pandas
pa.array([1.0]): loads pandas
pa.array(np.array([1.0])): loads pandas
pc.equal(numbers, 1.0): loads pandas
numbers.to_numpy(): loads pandas
numbers[1:].to_pylist(): does not
pc.add(numbers, numbers): does not
duckdb.sql('select 1 as a').arrow(): does not
TEXT
diff "$folder/expected" "$folder/seen"
