#!/bin/sh
# A field of a text file that goes on after its closing quote, as in the line
# 1,"3" and
# DuckDB refuses it, and its message advises strict_mode=false. With that,
# DuckDB 2.0.1 reads "3 an": the last letter of every such field is lost, with
# no error and no rejected row. The csv module of Python, pandas and pyarrow
# all read "3 and". Fields without quotes, or quoted as a whole, are intact.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet \
    duckdb==2.0.1 pandas==2.3.3 pyarrow==22.0.0

cat > "$folder/read.py" <<'PYTHON'
import csv
import sys

import duckdb
import pandas as pd
import pyarrow.csv

path = sys.argv[1]
with open(path, "w", newline="") as file:
    file.write('id,text\n1,"3" and\n2,"five" o\'clock\n3,plain\n4,"whole"\n')

with open(path, newline="") as file:
    print("csv:", [row[1] for row in csv.reader(file)][1:])
print("pandas:", pd.read_csv(path)["text"].tolist())
print("pyarrow:", pyarrow.csv.read_csv(path)["text"].to_pylist())
for strict in (True, False):
    query = (
        f"select text from read_csv('{path}', header=true, delim=',', quote='\"', "
        "escape='\"', columns={'id': 'VARCHAR', 'text': 'VARCHAR'}, "
        f"auto_detect=false, strict_mode={strict})"
    )
    try:
        seen = [row[0] for row in duckdb.sql(query).fetchall()]
    except duckdb.InvalidInputException as error:
        seen = "refused" + (", advises strict_mode=false" if "strict_mode=false" in str(error) else "")
    print(f"DuckDB {duckdb.__version__}, strict_mode={strict}:", seen)
PYTHON
"$folder/venv/bin/python" "$folder/read.py" "$folder/text.csv" > "$folder/seen"
cat "$folder/seen"

cat > "$folder/expected" <<'TEXT'
csv: ['3 and', "five o'clock", 'plain', 'whole']
pandas: ['3 and', "five o'clock", 'plain', 'whole']
pyarrow: ['3 and', "five o'clock", 'plain', 'whole']
DuckDB 2.0.1, strict_mode=True: refused, advises strict_mode=false
DuckDB 2.0.1, strict_mode=False: ['3 an', "five o'cloc", 'plain', 'whole']
TEXT
diff "$folder/expected" "$folder/seen"
