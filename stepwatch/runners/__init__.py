"""How an environment is made and a suite is run in it."""
