"""Scratch folders can be removed in whatever state they are left."""

import os

import pytest

from autograder.sandbox import scratch


def test_a_folder_deeper_than_paths_and_recursions_go_is_removed(tmp_path):
    top = tmp_path / "scratch"
    top.mkdir()
    place = os.open(top, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("deep", dir_fd=place)
        inner = os.open("deep", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(place)
    scratch.remove(top)
    assert list(tmp_path.iterdir()) == []


def test_names_that_are_taken_and_links_do_no_harm(tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("kept")
    top = tmp_path / "scratch"
    for number in range(3):
        (top / str(number) / "inner" / "0").mkdir(parents=True)
        (top / str(number) / "file").write_text("x")
    (top / "link").symlink_to(kept)
    (top / "1" / "link").symlink_to(kept)
    scratch.remove(top)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (kept / "file").read_text() == "kept"


def test_a_link_that_somebody_put_in_the_place_of_a_folder_is_not_followed(tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("kept")
    (tmp_path / "scratch").symlink_to(kept)
    with pytest.raises(NotADirectoryError, match="is a link"):
        scratch.remove(tmp_path / "scratch")
    assert (kept / "file").read_text() == "kept"
