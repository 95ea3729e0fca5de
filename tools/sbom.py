"""The image's bill of materials: every package of its locks, with the digests of its files, as CycloneDX 1.6.

    python -m tools.sbom k8s/locks build/sbom.json

It tells what the image's builder is allowed to install. Packages of the base image are not in it.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

ROOT = Path(__file__).parents[1]
_PIN = re.compile(r"^(\S+)==(\S+)((?: \\\n +--hash=sha256:[0-9a-f]{64})+)$", re.MULTILINE)


def locked(locks: Path, files: str = "*.txt") -> dict[str, tuple[str, tuple[str, ...]]]:
    """Of each package in the files of the folder ``locks``: its version, and the SHA-256 of its files."""
    return {
        name: (version, tuple(re.findall(r"[0-9a-f]{64}", hashes)))
        for file in sorted(locks.glob(files))
        for name, version, hashes in _PIN.findall(file.read_text(encoding="utf-8"))
    }


def sbom(locks: Path) -> str:
    """The bill of materials as JSON."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    image = Component(
        name=project["name"], version=project["version"], type=ComponentType.CONTAINER, bom_ref=project["name"]
    )
    bom = Bom(components=_components(locks))
    bom.metadata.component = image
    bom.register_dependency(image, bom.components)
    return make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=1)


def _components(locks: Path) -> Iterator[Component]:
    for name, (version, hashes) in locked(locks).items():
        purl = PackageURL("pypi", name=name, version=version)
        yield Component(
            name=name,
            version=version,
            purl=purl,
            bom_ref=purl.to_string(),
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=each) for each in hashes],
        )


def main(locks: str, out: str) -> None:
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    Path(out).write_text(sbom(Path(locks)), encoding="utf-8")
    print(f"{len(locked(Path(locks)))} packages: {out}")


if __name__ == "__main__":
    main(*sys.argv[1:])
