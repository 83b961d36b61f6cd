"""Tables: files read, columns of any kind made numbers and categories.

From top to bottom:

* `columns`: the columns of a table in memory, as a scan reads them;
* `supervised`: a table for a training: inputs, target and protected column;
* `sources`: files, datasets and queries that are read batch by batch;
* `files`: the only reader of files;
* `delimited`: cells and columns of CSV;
* `arrow_columns`: columns of Arrow batches, by their types;
* `convert`: one column of any kind, and the only encoder of categories;
* `texts`: what texts mean, and how they are written;
* `faults`: the error of files and columns that cannot be used.
"""
