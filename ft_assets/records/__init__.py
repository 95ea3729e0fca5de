"""What the store remembers: create-only records, their paths, and how they are read and checked.

Imports ``settings`` and ``ft_resources`` only. Deciding what to record is up to ``control``.
"""
