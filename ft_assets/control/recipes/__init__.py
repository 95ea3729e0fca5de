"""Reading recipes: the stored record, the trials of a sweep, a recipe file, and what a tenant may use.

``control/registry`` registers them.
"""
