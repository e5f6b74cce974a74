"""The manual page, what desktops read, and the trees around a bundle."""

import argparse
import configparser
import gzip
import re
import runpy
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

import attnscope as at
from attnscope.cli.main import COMMANDS, build_parser, main
from attnscope.figures import ENDINGS
from attnscope.viewmodels.session import ENDING
from shipping import APP_ID, PACKAGING, debian, desktop, manual, program_version, shells

MIME = "{http://www.freedesktop.org/standards/shared-mime-info}"


@pytest.fixture(scope="module")
def page() -> str:
    return manual.manual_page(build_parser([*COMMANDS]), "1.2.3", date="2026-01-02")


def test_that_the_page_has_every_command_with_its_options(page: str) -> None:
    assert page.startswith('.TH ATTNSCOPE 1 "2026-01-02" "AttnScope 1.2.3"')
    assert re.findall(r"^\.SS (\S+)$", page, flags=re.MULTILINE) == ["open", *COMMANDS]
    figure = page.partition(".SS figure\n")[2].partition(".SS ")[0]
    assert "\\-\\-view" in figure
    assert "\\-\\-panel" in figure
    assert "\nattnscope figure " in re.sub(r"\n *(\$ *)?", "\n", figure)  # its examples


def test_that_options_read_as_in_help() -> None:
    parser = argparse.ArgumentParser(prog="p", description="One.\n\nTwo - two.")
    parser.add_argument("--n", type=int, default=3, metavar="N", help="how many (default: %(default)s), 5 %%")
    parser.add_argument("--secret", help=argparse.SUPPRESS)
    page = manual.manual_page(parser, "1", date="2026-01-02")
    assert ".SH DESCRIPTION\nOne.\n.PP\nTwo \\- two.\n" in page
    assert ".TP\n\\fB\\-\\-n N\\fR\nhow many (default: 3), 5 %\n" in page
    assert "secret" not in page


def test_that_a_line_is_never_taken_for_a_request() -> None:
    parser = argparse.ArgumentParser(prog="p", description=".figure.json and C:\\x")
    assert "\n\\&.figure.json and C:\\ex\n" in manual.manual_page(parser, "1", date="2026-01-02")


@pytest.mark.skipif(shutil.which("man") is None, reason="no man here")
def test_that_man_reads_the_page_without_a_warning(page: str, tmp_path: Path) -> None:
    path = tmp_path / "attnscope.1"
    path.write_text(page, encoding="utf-8")
    done = subprocess.run(["man", "--warnings", "-l", str(path)], capture_output=True, text=True, check=True)
    assert not done.stderr
    assert "COMMANDS" in done.stdout


def mime_types() -> dict[str, ElementTree.Element]:
    tree = ElementTree.parse(PACKAGING / f"{APP_ID}.mime.xml")
    return {str(kind.get("type")): kind for kind in tree.iter(f"{MIME}mime-type")}


def test_that_the_menu_entry_opens_every_kind_of_file() -> None:
    entry = configparser.RawConfigParser()
    entry.optionxform = str  # type: ignore[assignment,method-assign]
    entry.read(PACKAGING / f"{APP_ID}.desktop", encoding="utf-8")
    section = entry["Desktop Entry"]
    assert set(section["MimeType"].strip(";").split(";")) == set(mime_types())
    assert section["Exec"] == "attnscope %f"  # without a file the window opens as it was
    assert section["Icon"] == APP_ID


def test_that_the_window_belongs_to_the_menu_entry() -> None:
    source = (PACKAGING.parent / "attnscope" / "app.py").read_text(encoding="utf-8")
    assert f'setDesktopFileName("{APP_ID}")' in source  # Wayland finds the icon by it


def test_that_the_kinds_of_files_have_the_endings_that_the_program_writes() -> None:
    globs = {glob.get("pattern") for kind in mime_types().values() for glob in kind.iter(f"{MIME}glob")}
    assert globs == {f"*{ENDING}", f"*{ENDINGS['figure']}"}


def test_that_a_recording_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    path = tmp_path / "kept.safetensors"
    at.save_trace(path, at.from_arrays(np.full((1, 1, 2, 2), 0.5), ["a", "b"]))
    data = path.read_bytes()
    kind = mime_types()["application/x-attnscope-recording"]
    for match in kind.iter(f"{MIME}match"):
        first, _, last = str(match.get("offset")).partition(":")
        value = str(match.get("value")).encode()
        assert int(first) <= data.find(value) <= int(last or first)


def test_that_the_metainfo_begins_with_this_version() -> None:
    tree = ElementTree.parse(PACKAGING / f"{APP_ID}.metainfo.xml")
    newest = next(tree.iter("release"))
    assert newest.get("version") == program_version()


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package's tree around a bundle of two files."""
    folder = tmp_path_factory.mktemp("deb")
    (folder / "bundle" / "_internal").mkdir(parents=True)
    (folder / "bundle" / "attnscope").write_text("#!/bin/sh\n")
    (folder / "bundle" / "_internal" / "x.so").write_bytes(b"x" * 3000)
    (folder / "bundle" / "_internal" / "y.so").write_bytes(b"\x7fELF..\0GLIBC_2.9\0GLIBC_2.36\0GLIBC_2.4\0")
    (folder / "bundle" / "_internal" / "words.txt").write_bytes(b"\0GLIBC_2.99\0")
    debian.write_tree(folder / "bundle", folder / "tree", "1.2.3", {"man/man1/attnscope.1": ".TH A 1\n"})
    return folder / "tree"


needs_dpkg = pytest.mark.skipif(shutil.which("dpkg") is None, reason="no dpkg here")


@needs_dpkg
def test_that_the_package_lies_in_opt_and_is_found_by_name(tree: Path) -> None:
    assert (tree / "usr/bin/attnscope").readlink() == Path("/opt/attnscope/attnscope")
    assert (tree / "opt/attnscope/attnscope").stat().st_mode & 0o777 == 0o755
    assert (tree / "opt/attnscope/_internal/x.so").stat().st_mode & 0o777 == 0o644
    share = tree / "usr/share"
    assert gzip.decompress((share / "man/man1/attnscope.1.gz").read_bytes()) == b".TH A 1\n"
    for place in (
        f"applications/{APP_ID}.desktop",
        f"metainfo/{APP_ID}.metainfo.xml",
        f"mime/packages/{APP_ID}.xml",
    ):
        assert (share / place).is_file()
    assert "MIT License" in (share / "doc/attnscope/copyright").read_text()
    assert {path.name for path in tree.iterdir()} == {"DEBIAN", "opt", "usr"}


@needs_dpkg
def test_that_the_control_file_says_what_dpkg_asks_for(tree: Path) -> None:
    control = (tree / "DEBIAN/control").read_text()
    fields = dict(re.findall(r"^([A-Z][\w-]+): (.*)$", control, flags=re.MULTILINE))
    assert (fields["Package"], fields["Version"]) == ("attnscope", "1.2.3")
    assert int(fields["Installed-Size"]) >= 3
    assert fields["Depends"].startswith(
        "libc6 (>= 2.36), libdbus-1-3, "
    )  # of the newest symbol in the bundle
    assert control.endswith("\n")
    assert max(map(len, control.partition("Description")[2].splitlines())) <= 80
    changes = gzip.decompress((tree / "usr/share/doc/attnscope/changelog.gz").read_bytes()).decode()
    assert re.match(
        r"attnscope \(1\.2\.3\) stable; urgency=medium\n\n  \* .*\n\n -- .* <.*>  \w{3}, \d\d ", changes
    )


@needs_dpkg
def test_that_icons_are_drawn_in_every_size(tree: Path) -> None:
    from PySide6.QtGui import QImage

    icons = tree / "usr/share/icons/hicolor"
    assert (icons / "scalable/apps" / f"{APP_ID}.svg").is_file()
    for size_px in desktop.ICON_SIZES_PX:
        image = QImage(str(icons / f"{size_px}x{size_px}/apps/{APP_ID}.png"))
        assert (image.width(), image.height()) == (size_px, size_px)
        assert image.pixelColor(0, 0).alpha() == 0
        assert image.pixelColor(size_px // 2, size_px // 10).alpha() == 255


def test_that_the_app_dir_starts_from_any_folder(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    (bundle / "attnscope").write_text('#!/bin/sh\necho "started with $1"\n')
    (bundle / "attnscope").chmod(0o755)
    debian.write_app_dir(bundle, tmp_path / "first", {"man/man1/attnscope.1": "x"})
    moved = (tmp_path / "first").rename(tmp_path / "a moved folder")
    done = subprocess.run([moved / "AppRun", "x y"], capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout == "started with x y\n"
    assert (moved / f"{APP_ID}.desktop").resolve().is_file()
    assert (moved / ".DirIcon").resolve().is_file()


GLIBC = {
    "glibc 2.31": (2, ""),
    "glibc 2.35": (2, ""),
    "glibc 2.36": (0, "started with x y\n"),
    "glibc 2.36.9000": (0, "started with x y\n"),
    "glibc 2.41": (0, "started with x y\n"),
    "undefined": (0, "started with x y\n"),
    "": (0, "started with x y\n"),
}


@pytest.mark.parametrize("starter", ["archive/attnscope", "app/AppRun"])
@pytest.mark.parametrize("said", GLIBC)
def test_that_a_system_with_an_older_glibc_is_told_so_in_one_line(
    said: str, starter: str, tmp_path: Path
) -> None:
    bundle, fake = tmp_path / "bundle", tmp_path / "getconf"
    bundle.mkdir()
    for path, text in (
        (bundle / "attnscope", 'echo "started with $1"'),
        (fake, f'[ -n "{said}" ] && echo "{said}"'),
    ):
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    (bundle / "x.so").write_bytes(b"\x7fELF..\0GLIBC_2.36\0")
    if starter == "app/AppRun":
        debian.write_app_dir(bundle, tmp_path / "app", {})
    else:
        debian.write_archive_tree(bundle, tmp_path / "archive")
    done = subprocess.run(
        [tmp_path / starter, "x y"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    assert (done.returncode, done.stdout) == GLIBC[said]
    assert done.stderr == (
        f"attnscope: This system has {said}, too old for this bundle. Expected: glibc 2.36 or newer. "
        "Use a newer system, or install AttnScope for its own Python with pip.\n"
        if done.returncode
        else ""
    )


def test_that_packages_bring_what_the_command_prints_for_each_shell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = runpy.run_path(str(PACKAGING / "build.py"))["pages"]()
    assert set(pages) == {"man/man1/attnscope.1", *shells.PLACES.values()}
    desktop.write_pages(tmp_path, pages)
    assert (tmp_path / "man/man1/attnscope.1.gz").is_file()
    for shell, place in shells.PLACES.items():
        assert main(["completion", shell]) == 0
        assert (tmp_path / place).read_text(encoding="utf-8") == capsys.readouterr().out


def test_that_the_checklist_names_targets_and_files_that_are_there() -> None:
    text = (PACKAGING / "RELEASE.md").read_text(encoding="utf-8")
    targets = runpy.run_path(str(PACKAGING / "build.py"))["TARGETS"]
    commands = re.findall(r"build\.py ([a-z ]+)", text)
    assert {target for command in commands for target in command.split()} == set(targets)
    paths = re.findall(r"`((?:packaging|\.github|attnscope)/[\w./-]+)`", text)
    assert len(paths) > 4
    assert all((PACKAGING.parent / path).exists() for path in paths)
