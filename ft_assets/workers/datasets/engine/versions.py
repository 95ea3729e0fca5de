"""Versions that decide a result: on two machines with the same versions, equal items and files give equal bytes."""

from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from platform import python_version_tuple
from unicodedata import unidata_version

from ft_assets.settings.code_versions import CODE_VERSIONS, PACK_TOOLS
from ft_assets.workers.datasets.engine.prepare import KERNELS_VERSION

_LIBRARIES = ("phonenumbers", "presidio-analyzer", "pyarrow", "spacy", *PACK_TOOLS)


def installed(names: Iterable[str]) -> dict[str, str]:
    """The packages' versions, ``none`` for one that is not installed."""
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "none"
    return found


def deciding_versions() -> dict[str, str]:
    """The versions of this process, by name."""
    return {
        "Python": ".".join(python_version_tuple()[:2]),
        "Unicode": unidata_version,
        "kernels": KERNELS_VERSION,
        **{asset: CODE_VERSIONS[asset] for asset in ("dataset", "token_pack")},
        **installed(_LIBRARIES),
    }


def differing(here: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    """The differences, such as ``trl 1.15, not 1.16.0``; empty if all wanted versions are here."""
    others = {name: here.get(name, "none") for name in wanted if here.get(name, "none") != wanted[name]}
    return ", ".join(f"{name} {found}, not {wanted[name]}" for name, found in others.items())
