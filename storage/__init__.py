"""What is remembered: Postgres tables and plain functions on a connection."""
