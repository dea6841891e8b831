"""Lines and packages are counted as a reader counts them."""

from pathlib import Path

from benchmarks.house import code_lines, size_of

SOURCE = '''"""Two lines
of docstring."""

import os  # counts once


# a comment
class Pod:
    cpu_millis: int
    """What a field is."""

    TEXT = """two lines
of code"""

    def name(
        self,
    ) -> str:
        """Return it."""
        return os.sep
'''


def test_blanks_comments_and_docstrings_are_no_code() -> None:
    assert code_lines(SOURCE) == 9
    assert code_lines("") == 0


def test_rooms_hold_modules_and_an_init_is_none(tmp_path: Path) -> None:
    for name in (
        "slack/__init__.py",
        "slack/a.py",
        "slack/kube/b.py",
        "slack/kube/c.py",
        "operator/slack_operator/d.py",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SOURCE)
    assert size_of(tmp_path) == {
        "lines of product code": 45,
        "of these: commands, settings, rules, metrics, statuses": 0,
        "functions of more than 60 lines": 0,
        "functions of a complexity above 15": 0,
        "class names that stand for several classes": 1,
        "modules": 4,
        "packages": 3,
        "modules of the largest package": 2,
    }
