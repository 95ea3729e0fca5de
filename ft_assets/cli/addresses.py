"""Addresses as people read them: the fingerprint is cut short."""

SHORT = 12


def short(address: str) -> str:
    """The address with its fingerprint shortened for display."""
    head, _, fingerprint = address.rpartition("/")
    return f"{head}/{fingerprint[:SHORT]}"
