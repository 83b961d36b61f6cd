"""The small algebra of many columns, in NumPy and double precision.

For functions whose shapes vary with every table, so that compiling them would cost more than
their arithmetic.

* `linalg`: whitening, orthonormalisation and top singular values of many small matrices;
* `polynomials`: orthonormal polynomials of many columns, and HGR-KB of one pair on many weightings;
* `ranks`: ranks, and orthonormal functions of ranked columns;
* `estimates`: HGR of one pair from functions of both variables, with its interval;
* `conditional_hgr`: the same of residuals given other variables;
* `correlations`: Pearson's, Spearman's and distance correlation of one pair;
* `conditioning`: the regression of functions of ranks on other variables;
* `explained`: whether a variable is a function of others.
"""
