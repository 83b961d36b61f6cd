"""Tables: files read, columns of any kind made numbers and categories.

From top to bottom:

* `supervised`: a table for a training: inputs, target and protected column;
* `sources`: files, datasets and queries that are read batch by batch;
* `csv_files`: CSV files that are read block by block;
* `files`: files that are read whole;
* `arrow_columns`: columns of Arrow: what texts hold, and columns as numbers or levels;
* `delimited`: cells of CSV;
* `columns`: columns of any kind, the only encoder of categories, and a table as a scan reads it;
* `texts`: what texts mean, and how they are written;
* `faults`: the error of files and columns that cannot be used.
"""
