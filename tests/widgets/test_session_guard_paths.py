"""The session file by another name, and the digest that was read rather than what is there now."""

from pathlib import Path

from attnscope.widgets.window import SessionGuard, digest_of


def test_that_a_file_is_known_by_whatever_path_and_as_it_was_read(tmp_path: Path) -> None:
    path, other = tmp_path / "a.json", tmp_path / "link.json"
    path.write_text("as read")
    other.symlink_to(path)
    guard, read = SessionGuard(), digest_of(path)
    path.write_text("written by another program while it was read")
    guard.remember(path, read)
    assert "changed on disk" in guard.warning(path)
    assert "changed on disk" in guard.warning(other)
    guard.remember(path)
    assert guard.warning(other) == ""
