"""The images of ``k8s/Dockerfile``, built by buildah, measured, and run as on a cluster: read-only, by their user.

FT_IMAGE_BASE names the base by its digest, or is ``debootstrap``: then one is made of Debian's packages, where no
registry is reachable. FT_IMAGE_ARGS adds words to ``buildah bud``, such as TORCH_INDEX and TORCH_SHA256 as arguments of
the build, and what packages are fetched with on this network. Building needs root.
"""

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.architecture import ROOT

LIMITS_MB = {"control": 700, "worker-cpu": 2500}
"""The largest that an image may be, unpacked."""
_HERE = {"BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "overlay"}
# As Docker's Python has them: its headers, and no languages, manuals and lists of packages.
_PACKAGES = "python3.11,python3-distutils,python3.11-venv,python-is-python3,ca-certificates"
_UNUSED = ("usr/share/locale", "usr/share/doc", "usr/share/man", "var/lib/apt/lists", "var/cache/debconf", "var/log")
_ENTER = """
root=$1; shift
mount --bind "$root" "$root" && mount -o remount,bind,ro "$root"
mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" && mount -t tmpfs tmpfs "$root/tmp"
exec setpriv --no-new-privs chroot --userspec=10001:10001 --groups=10001 "$root" "$@"
"""


def lacking() -> str:
    """What is not here that building needs; "" if it can be tried."""
    if not os.environ.get("FT_IMAGE_BASE"):
        return "FT_IMAGE_BASE, a base by its digest or debootstrap"
    programs = [
        "buildah",
        "unshare",
        "setpriv",
        *(["debootstrap"] if os.environ["FT_IMAGE_BASE"] == "debootstrap" else []),
    ]
    missing = [name for name in programs if shutil.which(name) is None]
    return ", ".join(missing) or ("" if os.geteuid() == 0 else "root's rights")


def build(target: str) -> str:
    """Build a target of the Dockerfile; the image's name."""
    name = f"localhost/ft-{target}"
    files = ["-f", "k8s/Dockerfile", "--ignorefile", "k8s/Dockerfile.dockerignore"]
    more = shlex.split(os.environ.get("FT_IMAGE_ARGS", ""))
    _buildah("bud", "--layers", "--target", target, *files, "--build-arg", f"BASE={_base()}", *more, "-t", name, ".")
    return name


@contextmanager
def unpacked(image: str) -> Iterator[Path]:
    """The image's root folder."""
    container = _buildah("from", image)
    try:
        yield Path(_buildah("mount", container))
    finally:
        _buildah("rm", container)


def size_mb(root: Path) -> float:
    """What the files of an unpacked image take, in 10^6 bytes."""
    found = {}
    for folder, _, files in os.walk(root):
        for status in (os.lstat(os.path.join(folder, name)) for name in files):
            found[status.st_ino] = status.st_size
    return sum(found.values()) / 1e6


def run(root: Path, *command: str) -> str:
    """What a command says in an unpacked image. Only /tmp can be written to. Raises CalledProcessError."""
    settings = {name: value for name, _, value in (each.partition("=") for each in _environment())}
    environment = [f"{name}={value}" for name, value in settings.items()]
    inside = ["env", "-i", "-C", "/app", *environment, *command]
    apart = ["unshare", "--mount", "--pid", "--fork", "--propagation", "private"]
    done = subprocess.run(
        [*apart, "sh", "-ec", _ENTER, "sh", str(root), *inside], stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


def _environment() -> list[str]:
    """The variables that the Dockerfile sets in all images."""
    text = (ROOT / "k8s" / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    (line,) = [each for each in text.splitlines() if each.startswith("ENV ") and " HOME=" in each]
    return [word.replace("$PATH", "/usr/local/bin:/usr/bin:/bin") for word in line.split()[1:]]


def _base() -> str:
    base = os.environ["FT_IMAGE_BASE"]
    return _debian() if base == "debootstrap" else base


def _debian() -> str:
    """Debian with its Python, as an image; by its digest. Made once."""
    name = "localhost/ft-python"
    if not _buildah("images", "--filter", f"reference={name}", "-q"):
        with tempfile.TemporaryDirectory(prefix="ft-base-") as scratch:
            root = Path(scratch) / "root"
            subprocess.run(
                ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", "bookworm", str(root)],
                stdout=subprocess.DEVNULL,
                check=True,
            )
            headers = "cd /tmp && apt-get download -q libpython3.11-dev && dpkg-deb -x lib*.deb x"
            headers += " && cp -r x/usr/include /usr/"
            subprocess.run(
                ["chroot", str(root), "sh", "-ec", f"{headers} && rm -r /tmp/* && apt-get clean"], check=True
            )
            for each in _UNUSED:
                shutil.rmtree(root / each, ignore_errors=True)
                (root / each).mkdir()
            container = _buildah("from", "scratch")
            _buildah("add", "-q", container, str(root), "/")
            _buildah("commit", "-q", "--rm", container, name)
    return f"{name}@{_buildah('images', '--filter', f'reference={name}', '--format', '{{.Digest}}').splitlines()[0]}"


def _buildah(*words: str) -> str:
    done = subprocess.run(
        ["buildah", *words], cwd=ROOT, env=_HERE | os.environ, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.strip()
