"""Which commits did it?

candidates: the path of pairs; compare: two sides' levels; plan: what to try next on the path; blame: whose a
bracket's step is (crossing, partner, case and wording are its parts).
"""
