"""Tables: read files, and turn columns of any kind into numbers and categories.

From top to bottom:

* `given`: two variables and those that they are given;
* `samples`: a uniform sample of the rows of a table that is read once;
* `clusters`: the partitions of Dask and Spark tables;
* `sources`: files, datasets, queries and batches that are read part by part;
* `files`: files that are read whole;
* `workbooks`: the rows of a sheet;
* `other_files`: JSON, Parquet, Feather and databases;
* `databases`: tables of SQLite and DuckDB;
* `isolated`: a process for libraries that may not return;
* `statistics_files`: files of SPSS, Stata and SAS;
* `packed`: the bytes of a file, unpacked, and its format;
* `text_files`: the cells of text files, by DuckDB;
* `text_columns`: columns of texts: plain values by DuckDB, others by their distinct texts;
* `arrow_columns`: Arrow columns: their kinds, and tables of any library;
* `dialects`: how a text file separates values;
* `layouts`: the names and the rows among the lines of a file or sheet;
* `frames`: data frames that are made of columns and of matrices;
* `columns`: a table that was read from a file, and one as a scan uses it;
* `arrays`: columns of arrays, of objects and of data frames;
* `levels`: categories, the only encoder of them, and why a column is left out;
* `reading`: every option of readers;
* `meanings`: kinds of texts, and what the columns of a table mean, decided from all of them;
* `number_texts`: numbers as people write them;
* `date_texts`: dates, times of day and durations as people write them;
* `faults`: the error of files and columns that cannot be used.
"""
