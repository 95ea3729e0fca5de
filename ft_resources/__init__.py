"""The platform's doors to the world: store, launchers, hub, tracking. Nothing here knows a model or a dataset."""
