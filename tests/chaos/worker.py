"""The worker of chaos runs: the real loop; a training that only takes its time, on one GPU of a recipe."""

from ft_assets import worker


def main() -> None:
    worker.WORK["checkpoint"] = "tests.fake_worker:write"
    worker.main()


if __name__ == "__main__":
    main()
