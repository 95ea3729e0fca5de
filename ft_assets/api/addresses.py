"""Addresses as people write them: the fingerprint may be cut short, as long as it is unambiguous."""

from ft_assets.api.defaults import store_or_default
from ft_resources.artifacts import Address
from ft_resources.errors import NotFound, UserError
from ft_resources.store import Store

_FULL = 64


def find_address(text: str, *, store: Store | None = None) -> Address:
    """The address in ``text``, completed from the store. Raises NotFound for none,
    and UserError if it names no address, or several."""
    address = Address.parse(text)
    start = address.fingerprint
    if len(start) == _FULL:
        return address
    known = store_or_default(store).folders(f"{address.tenant}/{address.asset}")
    found = [name for name in known if name.startswith(start)]
    if not found:
        raise NotFound(
            "no artifact's fingerprint starts with this", where=text, remedy="Check tenant, asset and fingerprint."
        )
    if len(found) > 1:
        raise UserError(
            f"{len(found)} artifacts start with this",
            where=text,
            remedy="Give more characters of the fingerprint, or all of them.",
        )
    return Address(tenant=address.tenant, asset=address.asset, fingerprint=found[0])
