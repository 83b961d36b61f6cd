"""The estimate: pure functions of arrays, which import jax, jaxopt and numpy only."""
