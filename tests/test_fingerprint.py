"""The hash of code that fitted models and drawn worlds are kept under."""

import shutil

from xaihelpers.fingerprint import code_hash


def test_code_hash(tmp_path):
    one, two = tmp_path / "one.py", tmp_path / "two.csv"
    one.write_text('def f(x):\n    """Doc."""\n    return x + 1\n')
    two.write_text("a,b\n")
    first = code_hash([one, two])
    assert code_hash([two, one]) == first
    one.write_text('def f(x):  # plus one\n    """Other words."""\n\n    return (x + 1)\n')
    assert code_hash([one, two]) == first
    one.write_text("def f(x):\n    return x + 2\n")
    assert code_hash([one, two]) != first
    shutil.copy(two, tmp_path / "three.csv")
    assert code_hash([two]) != code_hash([tmp_path / "three.csv"])
