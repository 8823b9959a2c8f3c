import pytest
from small_stores import make_store


@pytest.fixture
def store(tmp_path):
    return make_store(tmp_path / "data.zarr")
