"""The rooms of `make mutants` are those of the package."""

import pytest

from tests import mutants


@pytest.mark.parametrize("room", mutants.ROOMS)
def test_the_files_of_a_room_are_there(room, monkeypatch):
    assert mutants.files_of(room)
    monkeypatch.setitem(mutants.ROOMS, room, ("models/masking.py", "models/no_such_*.py"))
    with pytest.raises(ValueError, match="no_such"):
        mutants.files_of(room)
