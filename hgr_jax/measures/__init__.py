"""Dependence measures, one module each, of one shape: ``measure(a, b, *, ...) -> scalar``."""

from hgr_jax.measures.kb import kb, kb_fit
from hgr_jax.measures.sk import sk, sk_fit

__all__ = ["kb", "kb_fit", "sk", "sk_fit"]
