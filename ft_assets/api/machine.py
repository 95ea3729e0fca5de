"""The capabilities of this machine."""

from collections.abc import Iterator

from ft_assets.workers.training.kernels import Found as Kernel
from ft_assets.workers.training.kernels import find_kernels
from ft_resources.errors import UserError


def kernels() -> Iterator[Kernel]:
    """The optional kernels on this machine, each tried on a small example. Raises UserError without PyTorch."""
    try:
        yield from find_kernels()
    except ModuleNotFoundError as error:
        raise UserError(
            f"what trains is not installed here: {error.name} is missing",
            where="this environment",
            remedy="Run it in the workers' image, or install the extra `train`.",
        ) from error
