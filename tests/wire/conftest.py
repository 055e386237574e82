"""One server for all tests of this folder that cannot harm each other."""

import pytest

from wire.deployment import deployed


@pytest.fixture(scope="package")
def shared(tmp_path_factory):
    with deployed(tmp_path_factory.mktemp("wire")) as deployment:
        yield deployment
