#!/bin/sh
# TRY_CAST is null where a text is no number. In DuckDB 2.0.1 it raises a
# ConversionException instead, where nothing else of a query uses the column
# of a CSV file: the cast is moved into the reader, which then reads a column
# of that type. With the column itself in the same SELECT, or with the texts
# in a table, the result is null, as documented.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet duckdb==2.0.1

cat > "$folder/cast.py" <<'PYTHON'
import sys

import duckdb

path = sys.argv[1]
with open(path, "w") as file:
    file.write("x\n1\nodd\n")
texts = f"read_csv('{path}', auto_detect=false, columns={{'x': 'VARCHAR'}}, header=true)"
duckdb.sql(f"CREATE TABLE kept AS SELECT * FROM {texts}")
for what, query in (
    ("with the column", f"SELECT try_cast(x AS DOUBLE), x FROM {texts}"),
    ("alone", f"SELECT try_cast(x AS DOUBLE) FROM {texts}"),
    ("alone, of a table", "SELECT try_cast(x AS DOUBLE) FROM kept"),
):
    try:
        print(f"{what}:", [row[0] for row in duckdb.sql(query).fetchall()])
    except duckdb.ConversionException as error:
        print(f"{what}:", type(error).__name__)
PYTHON
"$folder/venv/bin/python" "$folder/cast.py" "$folder/text.csv" > "$folder/seen"
cat "$folder/seen"

cat > "$folder/expected" <<'TEXT'
with the column: [1.0, None]
alone: ConversionException
alone, of a table: [1.0, None]
TEXT
diff "$folder/expected" "$folder/seen"
