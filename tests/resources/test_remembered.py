from ft_resources.remembered import Remembered
from ft_resources.store import Store


def test_what_is_there_is_read_once_and_what_is_not_is_looked_for_again(tmp_path) -> None:
    store, looks = Store(str(tmp_path / "a")), []
    remembered: Remembered[str] = Remembered()

    def find() -> str | None:
        looks.append(1)
        return "there" if len(looks) > 2 else None

    assert [remembered.get(store, "k", find) for _ in range(5)] == [None, None, "there", "there", "there"]
    assert len(looks) == 3
    # Another store's record of the same name is another record.
    assert remembered.known(Store(str(tmp_path / "b")), "k") is None


def test_it_forgets_the_oldest_first(tmp_path) -> None:
    store = Store(str(tmp_path))
    remembered: Remembered[int] = Remembered(most=2)
    for number in range(3):
        remembered.keep(store, str(number), number)
    assert [remembered.known(store, str(number)) for number in range(3)] == [None, 1, 2]
