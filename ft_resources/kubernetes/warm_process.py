"""What runs in a warm pod: ``python -m ft_resources.kubernetes.warm_process [STORE_URL LAYOUT BASE…]``.

It fetches the named shared bases to the cache at FT_CACHE, holds them there against eviction, and waits for its end.
A base that is not in the store yet is looked for again.
"""

import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType

from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.errors import CorruptArtifact, Misconfigured, UserError
from ft_resources.file_cache import FileCache
from ft_resources.kubernetes.s3_policy import BASES
from ft_resources.store import Store
from ft_resources.store_layout import Layout

_AGAIN_S = 300.0


def fetch(artifacts: Artifacts, cache: FileCache, bases: Iterable[str], views: Path) -> set[str]:
    """Bring ``bases`` to ``cache``, where they stay while this process lives, and print what became of each; those that
    are not there yet."""
    missing = set(bases)
    for base in sorted(missing):
        try:
            found = [each for each in _shared(artifacts) if named_as(each) == base]
            for each in found:
                cache.folder(each, views / each.address.fingerprint)
        except (UserError, OSError) as error:
            # It may be one that does not fit, and the others do.
            print(f"not fetched: {base}: {error}", flush=True)
            continue
        print(f"{'on this node' if found else 'not in the store yet'}: {base}", flush=True)
        missing -= {base} if found else set()
    return missing


def _shared(artifacts: Artifacts) -> Iterator[Artifact]:
    for fingerprint in artifacts.store.folders(BASES):
        # One that cannot be read keeps no other from being fetched.
        with suppress(CorruptArtifact):
            base = artifacts.find(Address.parse(f"{BASES}/{fingerprint}"))
            if base is not None:
                yield base


def named_as(base: Artifact) -> str:
    """``hub:ORG/NAME@COMMIT`` or ``folder:sha256:DIGEST``, as settings name a base."""
    source, revision = str(base.facts.get("source", "")), base.facts.get("revision", "")
    return f"{source}@{revision}" if source.startswith("hub:") else source


def require_own(folder: Path) -> None:
    """Raise Misconfigured if bases cannot be written to ``folder``."""
    if not os.access(folder, os.W_OK):
        user = os.geteuid()
        raise Misconfigured(
            f"warm_bases of this node belongs to user {folder.stat().st_uid}, and bases are fetched by {user}",
            where=str(folder),
            remedy="Make it as docs/how-to/warm.md says in step 1: else the kubelet makes it for the first worker, as "
            "root.",
        )


def _keep(url: str, layout: str, bases: Iterable[str]) -> None:
    artifacts = Artifacts(Store(url, create=False, layout=Layout(int(layout))))
    with tempfile.TemporaryDirectory(prefix="ft-warm-") as scratch:
        cache = FileCache.of_machine(Path(scratch))
        while bases := sorted(fetch(artifacts, cache, bases, Path(scratch))):
            time.sleep(_AGAIN_S)
        signal.pause()


def main() -> None:
    def end(_number: int, _frame: FrameType | None) -> None:
        os._exit(0)

    # The kernel drops signals that the first process of a container does not handle.
    signal.signal(signal.SIGTERM, end)
    if len(sys.argv) > 1:
        url, layout, *bases = sys.argv[1:]
        try:
            require_own(Path(os.environ["FT_CACHE"]).parent)
        except Misconfigured as error:
            # The pod is seen to fail, and is started again.
            sys.exit(str(error))
        _keep(url, layout, bases)
    signal.pause()


if __name__ == "__main__":
    main()
