"""Scans: HGR of all pairs of columns of a table, wherever the table is, with tests.

From a table to a `Scan`, in the order in which a scan uses them:

* `api`: `scan` and `hgr_matrix`, the public functions;
* `request`: the options of a scan, declared and checked once;
* `row_options`: what is known of each row: how often it was counted, its order, its group;
* `sampling`: which rows of a table a scan takes;
* `pairs`: which columns and which pairs;
* `size`: how much memory a scan takes, and whether it is there;
* `squares`: squares of pairs, the tasks of an executor;
* `run`: the pipeline: estimates, tests, notes, result;
* `memory`: the columns and pairs of a square, and estimates of other measures than HGR;
* `functions`: measures that are functions of two vectors, in JAX;
* `features`: columns as numeric arrays, and the rows that they share;
* `products`: mean products of functions of columns, tile by tile;
* `polynomials`: Pearson's correlation and HGR-KB of many pairs;
* `given`: what given columns explain, removed pair by pair;
* `rank_tests`: HGR, and the test by ranks of pairs of numbers;
* `significance`: the choice of a test for each pair;
* `design_tests`: tests of rows in an order or in groups;
* `screen`: the test by ranks of very many pairs, in float32;
* `top`: the first pairs of very many columns;
* `result`: `Scan` and `Pair`: matrices, lists, frames, files;
* `fits`: transformations, intervals and influential rows of one pair; `kb_fits`: by HGR-KB, in JAX;
* `facts`: what is known of the table as a whole: copies of rows, their order, a panel, marks;
* `remarks`: what else may make a dependence: single rows, copies, the order of the rows;
* `missing_values`: which columns lack the same rows, and on what that depends;
* `findings`: the strongest pairs and those that are not monotone, with remarks;
* `report`: a page of a scan to open in a browser; `html` writes it.
"""
