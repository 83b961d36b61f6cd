"""Scans: HGR of all pairs of columns of a table, wherever the table is, with tests.

From a table to a `Scan`, in the order in which a scan uses them:

* `api`: `scan` and `hgr_matrix`, the public functions;
* `request`: what is asked, declared and checked once;
* `pairs`: which columns and which pairs, and whether they fit in memory;
* `table`: what a scan needs of a table, wherever its rows are;
* `run`: the pipeline: estimates, tests, remarks, result;
* `memory`: a table in memory: bases and sums of its columns, all rows at hand;
* `batches`: a table that is read batch by batch: estimates from sums, and rows that are read again;
* `passes`: the scan in passes over rows that do not fit in memory;
* `streaming`: such passes over files and queries, with checkpoints;
* `cluster`: such passes over the parts of tables of Dask and Spark;
* `survey`: the first pass: counts, levels, extremes and a sample;
* `plan`: what the second pass sums: levels, bases, maps to ranks;
* `state`: `ScanState`, a plan with its sums, for passes of one's own;
* `features`: columns as they are computed with, and functions of them;
* `bases`: near-orthonormal functions of many columns;
* `residuals`: functions of columns less what other columns explain;
* `sums`: cross moments of functions over rows;
* `solve`: from sums to estimates and standard errors;
* `significance`: which p-value for which pair;
* `rank_tests`: the test by ranks of pairs of numbers;
* `resampling`: permutations and random signs;
* `screen`: the test by ranks of very many pairs, in float32;
* `consumers`: the first pairs of very many columns;
* `result`: `Scan` and `Pair`: matrices, lists, frames, files;
* `fits`: one pair in full.
"""
