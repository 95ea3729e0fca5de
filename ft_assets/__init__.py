"""The product on floors; ``[tool.importlinter]`` in ``pyproject.toml`` holds them.

From top to bottom: ``cli``, ``demo``, ``graph`` and ``ft_sensors`` (doors), ``api``, ``control``, ``workers``,
``records``, ``settings``, ``ft_resources``. A file imports from its own folder or from a floor below.
``definitions`` is Dagster's code location; ``worker`` and ``fetch`` are the processes of a pod.
"""
