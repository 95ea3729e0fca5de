"""Which IP addresses are public: checked before anything is sent to a host named in configuration (SSRF defence)."""

import ipaddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# IPv6 prefixes whose last 32 bits are an IPv4 address, to which a translator (NAT64, RFC 6052; SIIT, RFC 7915) or an
# old stack (RFC 4291, 2.5.5.1) forwards.
_LAST_32_BITS = tuple(
    ipaddress.IPv6Network(text) for text in ("64:ff9b::/96", "::ffff:0:0:0/96", "::ffff:0:0/96", "::/96")
)
# Python counts these as global: protocols' own addresses (RFC 6890), 6to4's old relays (RFC 7526), where Azure's host
# answers its machines, with their keys, and documentation (RFC 9637).
_OWN = tuple(
    ipaddress.ip_network(text)
    for text in ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32", "2001::/23", "3fff::/20")
)
# All other IPv6 addresses are of no network that everybody reaches (RFC 4291, 2.4).
_UNICAST = ipaddress.IPv6Network("2000::/3")


def is_public(address: Address) -> bool:
    """Whether an address is public: not private, shared, loopback, link-local or multicast, nor an IPv6 form of such an
    address.

    >>> is_public(ipaddress.ip_address("::ffff:10.0.0.1"))
    False
    """
    address = undisguised(address)
    if address.version == 6 and address not in _UNICAST:
        return False
    return address.is_global and not address.is_multicast and not any(address in network for network in _OWN)


def undisguised(address: Address) -> Address:
    """The IPv4 address inside an IPv6 one that only wraps it; ``::`` and ``::1`` stay as they are."""
    if not isinstance(address, ipaddress.IPv6Address) or address.is_unspecified or address.is_loopback:
        return address
    if any(address in network for network in _LAST_32_BITS):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.sixtofour or address
