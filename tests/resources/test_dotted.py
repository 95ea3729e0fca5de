"""Nested mappings by dotted names."""

from types import MappingProxyType

from ft_resources.dotted import leaves


def test_every_value_has_the_names_above_it_and_lists_stay_whole() -> None:
    nested = {"a": {"b": 1, "c": {"d": None}}, "e": [{"f": 2}], "g": MappingProxyType({"h": 3}), "i": {}}
    assert dict(leaves(nested)) == {"a.b": 1, "a.c.d": None, "e": [{"f": 2}], "g.h": 3}
