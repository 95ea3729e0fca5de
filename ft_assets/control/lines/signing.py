"""A promotion signs its adapter, if a key is configured."""

from ft_resources.artifacts import Address, Artifacts, InputRef
from ft_resources.errors import CorruptArtifact
from ft_resources.signatures import require_signed, sign, signing_key


def assure_signed(artifacts: Artifacts, adapter: InputRef) -> bool:
    """Sign exactly the bytes that were judged, if ``FT_SIGNING_KEY`` is set; returns whether the signature is new.

    Raises Unsigned if ``FT_TRUSTED_KEYS`` demands a signature that is still missing, CorruptArtifact if the bytes
    differ now, Misconfigured for unusable keys, and StoreUnavailable.
    """
    artifact = artifacts.get(Address.parse(adapter.address))
    if artifact.digest != adapter.digest:
        raise CorruptArtifact("its content differs from what was judged", where=adapter.address)
    key = signing_key()
    new = key is not None and sign(artifacts.store, artifact, key)
    require_signed(artifacts.store, artifact)
    return new
