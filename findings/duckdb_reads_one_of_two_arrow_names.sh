#!/bin/sh
# Names of SQL do not differ by case alone, those of Arrow may. Of a registered
# Arrow table with the columns x and X, DuckDB 2.0.1 reads the first for both,
# also where the names are quoted, with no error and no warning. It lists them
# as x and X_1: by that name, or by *, the second one can be had.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet duckdb==2.0.1 pyarrow==22.0.0

cat > "$folder/names.py" <<'PYTHON'
import duckdb
import pyarrow as pa

connection = duckdb.connect()
connection.register("t", pa.table({"x": ["first"], "X": ["second"]}))
print("listed:", [row[0] for row in connection.sql("DESCRIBE t").fetchall()])
for names in ('"x", "X"', "*", '"X_1"'):
    print(f"{names}:", connection.sql(f"SELECT {names} FROM t").fetchall())
PYTHON
"$folder/venv/bin/python" "$folder/names.py" > "$folder/seen"
cat "$folder/seen"

cat > "$folder/expected" <<'TEXT'
listed: ['x', 'X_1']
"x", "X": [('first', 'first')]
*: [('first', 'second')]
"X_1": [('second',)]
TEXT
diff "$folder/expected" "$folder/seen"
