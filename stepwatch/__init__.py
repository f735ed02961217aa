"""A continuous benchmark service with regression alerts for JAX + XLA."""
