"""The platform's doors to the world: the store, the launchers, the hub, tracking. Nothing here knows a model or a dataset."""
