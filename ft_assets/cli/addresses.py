"""Addresses as people write them: the fingerprint may be cut short, as long as it is clear which one is meant."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ft_resources.artifacts import Address
    from ft_resources.store import Store

SHORT = 12
_FULL = 64


def find_address(store: "Store", text: str) -> "Address":
    """The address in ``text``, completed from what is in the store. Raises UserError where it is none, or several."""
    from ft_resources.artifacts import Address
    from ft_resources.errors import UserError

    address = Address.parse(text)
    start = address.fingerprint
    if len(start) == _FULL:
        return address
    found = [name for name in store.folders(f"{address.tenant}/{address.asset}") if name.startswith(start)]
    if not found:
        raise UserError("no artifact begins like this", where=text, remedy="Check tenant, asset and fingerprint.")
    if len(found) > 1:
        raise UserError(
            f"{len(found)} artifacts begin like this", where=text, remedy="Give more of the fingerprint, or all of it."
        )
    return Address(tenant=address.tenant, asset=address.asset, fingerprint=found[0])


def short(address: str) -> str:
    """The address with as much of its fingerprint as people can read."""
    head, _, fingerprint = address.rpartition("/")
    return f"{head}/{fingerprint[:SHORT]}"
