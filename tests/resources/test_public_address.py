"""Addresses that what we send may go to, in every disguise that IPv6 has for those of IPv4."""

import ipaddress

import pytest

from ft_resources.public_address import is_public


@pytest.mark.parametrize("text", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_addresses_of_the_internet_are_public(text: str) -> None:
    assert is_public(ipaddress.ip_address(text))


@pytest.mark.parametrize(
    "text",
    [
        *("10.1.2.3", "100.64.0.1", "192.168.0.1", "127.0.0.1", "169.254.169.254", "0.0.0.0", "224.0.0.1"),
        # Where Azure's host answers its machines.
        *("168.63.129.16", "::ffff:168.63.129.16"),
        *("192.0.0.1", "192.0.0.9", "192.0.0.171", "192.88.99.1", "198.18.0.1", "203.0.113.1", "240.0.0.1"),
        *("5f00::1", "3fff::1", "3fff:fff::1", "2001:db8::1", "2001:20::1", "100::1", "4000::1"),
        *("::ffff:192.0.0.8", "2002:c058:6301::1"),
        *("::", "::1", "fd00::1", "fe80::1", "fec0::1", "ff0e::1"),
    ],
)
def test_addresses_of_a_network_of_ones_own_are_not_public(text: str) -> None:
    assert not is_public(ipaddress.ip_address(text))


@pytest.mark.parametrize(
    "text",
    [
        *("::ffff:10.0.0.1", "::ffff:0:10.0.0.1", "::10.0.0.1", "2002:a00:1::", "2001:0:a00:1::"),
        *("64:ff9b::a00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a00:1"),
    ],
)
def test_a_disguised_address_is_as_public_as_what_it_hides(text: str) -> None:
    assert not is_public(ipaddress.ip_address(text))
