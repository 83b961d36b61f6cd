"""The estimate: pure functions of arrays, which import jax, jaxopt and numpy only.

In the order of the paper:

* `kernels`: the kernels P of a variable, as degrees, features or functions of your own;
* `orthonormal`: bases of their spans that are orthonormal on the data;
* `paper`: HGR-SK by least squares and HGR-KB by jaxopt, on the small matrix of cross moments;
* `solvers`: their closed form, all modes, implicit derivatives;
* `canonical`: from the data to that matrix and back; the derivative of the envelope theorem;
* `partial`: residuals given other variables;
* `fits`: what callers see of a solution: transformations, standard error, printing; `status`:
  the outcomes of a fit;
* `ranks`: functions of ranks, and HGR from their cross moments;
* `describe`: what a pair of transformations does, in words;
* `modes`: fits of all modes; `formulas`: transformations as text.

Under these: `arrays` (arguments of measures, checked and converted), `rows` (padding, and sums over
rows in blocks), `linalg` (factorisations of small matrices), `numerics` (divisions, roots, weights,
standardised variables), and, without JAX, `indicators` (the kernel of a category), `monomials` (of
several variables), `bias` (what chance and single rows add) and `host`, the small algebra of many
columns in NumPy.
"""
