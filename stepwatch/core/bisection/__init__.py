"""Which commits did it?"""
