"""All pairs of the columns of a table.

(Not called ``scan``: importing a module of that name would hide the function `hgr_jax.scan`.)
"""
