"""A table: all pairs of its columns at once, HGR above the diagonal and |Spearman| below."""

from pathlib import Path

import sklearn.datasets

import hgr_jax

table = sklearn.datasets.load_wine(as_frame=True).frame
table["target"] = table["target"].map({0: "A", 1: "B", 2: "C"})  # text is a category
found = hgr_jax.scan(table.sample(frac=1, random_state=0))  # rows come sorted by cultivar
print(found.findings(3))
found.plot().savefig(Path(__file__).with_suffix(".png"), dpi=100)
