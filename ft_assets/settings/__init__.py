"""What people write: recipes, dataset policies, ``tenants.yaml``, keys, environment variables.

Strict models and pure functions over them. Imports ``ft_resources`` only.
"""
