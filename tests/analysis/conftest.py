import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # so that tests can import made_up


@pytest.fixture(scope="session")
def finished_study(tmp_path_factory):
    """A made-up study with every kind of run. Shared: read it, and change a copy."""
    from made_up import make_study_folder

    folder = tmp_path_factory.mktemp("results") / "made-up"
    make_study_folder(folder)
    return folder
