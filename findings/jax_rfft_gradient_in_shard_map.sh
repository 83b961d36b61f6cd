#!/bin/sh
# The gradient of jax.numpy.fft.rfft inside jax.shard_map, with its default
# checks: jax 0.9.0.1 has the value but raises TypeError for the gradient, as
# the cotangent of rfft is marked as varying along the mesh and its own type is
# not. The gradients of fft and irfft work in the same place, and jax 0.10.2
# has all three. Until then: the first half of fft in place of rfft.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cat > "$folder/gradients.py" <<'PYTHON'
import jax
import jax.numpy as jnp

mesh = jax.make_mesh((1,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
rows = jax.sharding.PartitionSpec("rows")
x = jnp.arange(8.0)
transforms = {
    "rfft": lambda x: jnp.sum(jnp.abs(jnp.fft.rfft(x)) ** 2),
    "fft": lambda x: jnp.sum(jnp.abs(jnp.fft.fft(x)) ** 2),
    "irfft": lambda x: jnp.sum(jnp.fft.irfft(x + 0j) ** 2),
}
for name, energy in transforms.items():

    def loss(x, energy=energy):
        return jax.lax.psum(energy(x), "rows")

    mapped = jax.shard_map(
        loss, mesh=mesh, in_specs=rows, out_specs=jax.sharding.PartitionSpec()
    )
    assert jnp.isfinite(mapped(x)), "the value itself is fine"
    try:
        outcome = "finite" if jnp.isfinite(jax.grad(mapped)(x)).all() else "not finite"
    except TypeError as error:
        outcome = f"TypeError: {str(error)[:55]}"
    print(f"jax {jax.__version__}: gradient of {name}: {outcome}")
PYTHON

show() {
    python3 -m venv "$folder/$1"
    "$folder/$1/bin/python" -m pip install --quiet "jax==$1" "jaxlib==$1"
    JAX_PLATFORMS=cpu "$folder/$1/bin/python" "$folder/gradients.py"
}
show 0.9.0.1 > "$folder/seen"
show 0.10.2 >> "$folder/seen"
cat "$folder/seen"

cat > "$folder/expected" <<'TEXT'
jax 0.9.0.1: gradient of rfft: TypeError: cotangent type does not match function output, expected
jax 0.9.0.1: gradient of fft: finite
jax 0.9.0.1: gradient of irfft: finite
jax 0.10.2: gradient of rfft: finite
jax 0.10.2: gradient of fft: finite
jax 0.10.2: gradient of irfft: finite
TEXT
diff "$folder/expected" "$folder/seen"
