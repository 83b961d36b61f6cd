"""The estimate: pure functions of arrays, which import jax, jaxopt and numpy only.

In the order of the paper:

* `kernels`: the kernels P of a variable, as degrees, features or functions of your own;
* `orthonormal`: bases of their spans that are orthonormal on the data;
* `canonical`: the constrained problem, its value and the derivative of the envelope theorem;
* `solvers`: the small problem in whitened coordinates: jaxopt's projected gradient for HGR-KB,
  least squares for HGR-SK, all modes; implicit derivatives;
* `partial`: residuals given other variables;
* `fits`: what callers see of a solution: transformations, status, standard error, printing;
* `ranks`: functions of ranks, and HGR from their cross moments;
* `describe`: what a pair of transformations does, in words;
* `modes`: fits of all modes; `formulas`: transformations as text.

Under these: `rows` (padding, and sums over rows in blocks), `linalg` (factorisations of small
matrices), `numerics` (divisions, roots, weights, standardised variables), and `host`, the small
algebra of many columns in NumPy.
"""
