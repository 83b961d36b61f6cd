"""Tables: read files, and turn columns of any kind into numbers and categories.

From top to bottom:

* `supervised`: a table for training: inputs, target and protected attribute;
* `sources`: files, datasets and queries that are read batch by batch;
* `csv_files`: CSV files that are read block by block;
* `files`: files that are read whole;
* `arrow_columns`: Arrow columns: parse their texts, and decode them into numbers or levels;
* `delimited`: the cells of CSV files;
* `columns`: columns of any kind; the only encoder of categories; a table as a scan reads it;
* `reading`: every option of readers;
* `texts`: what texts mean, and how they are written;
* `faults`: the error of files and columns that cannot be used.
"""
