"""What is concluded: pure decisions on the standard library and numpy alone."""
