"""The asset checks: whether a dataset may be used, a pack is sound, a candidate passes its gates."""
