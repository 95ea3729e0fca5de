"""Adapters to the outside world: object store, attempts, launchers, model hub, tracking, mail and webhooks.

Nothing here knows about training, and nothing of ``ft_assets`` is imported.
"""
