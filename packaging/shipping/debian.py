"""The trees around a bundle: the archive, the package with the bundle in /opt, and an AppImage's AppDir."""

import mmap
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

from . import APP_ID, PACKAGING, ROOT, desktop

MAINTAINER = "The AttnScope authors <attnscope@users.noreply.github.com>"
DEPENDS = (
    *("libdbus-1-3", "libegl1", "libfontconfig1", "libfreetype6", "libgl1"),
    *("libglib2.0-0 | libglib2.0-0t64", "libx11-6", "libx11-xcb1", "libxcb1", "libxkbcommon0"),
)
"""Libraries that Qt loads and a bundle must not bring: they belong to the graphics driver or the system."""
_GLIBC = re.compile(rb"\0GLIBC_(\d+)\.(\d+)(?=\0)")
_START = """\
#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null)
minor=${{glibc#glibc 2.}}
case ${{minor%%.*}} in
  "" | *[!0-9]*) ;;
  *) if [ "${{minor%%.*}}" -lt {minor} ]; then
    echo "attnscope: This system has $glibc, too old for this bundle. Expected: glibc 2.{minor} or newer." \
      "Use a newer system, or install AttnScope for its own Python with pip." >&2
    exit 2
  fi ;;
esac
exec "$here/{program}" "$@"
"""
_PROGRAM = "attnscope.bin"
"""In the archive, where a script of the program's name starts it."""
_OVERRIDES = """\
# the bundle keeps its own copies of Qt, torch and Python in /opt, as shipped by their authors; the modules of
# its Python are compiled, for no other would compile them when the package is set up
attnscope: dir-or-file-in-opt
attnscope: embedded-library
attnscope: hardening-no-fortify-functions
attnscope: hardening-no-pie
attnscope: unstripped-binary-or-object
attnscope: custom-library-search-path
attnscope: shared-library-lacks-prerequisites
attnscope: library-not-linked-against-libc
attnscope: extra-license-file
attnscope: shlib-with-executable-stack
attnscope: package-installs-python-bytecode
attnscope: package-installs-python-pycache-dir
attnscope: script-not-executable
attnscope: wrong-path-for-interpreter
"""


def write_tree(bundle: Path, tree: Path, version: str, pages: Mapping[str, str]) -> None:
    """Lay out the package below `tree`: files of `bundle` are linked where they can be, else copied.

    `pages` are texts by their places below /usr/share; manual pages are packed.
    """
    shutil.rmtree(tree, ignore_errors=True)
    program = tree / "opt" / "attnscope"
    shutil.copytree(bundle, program, symlinks=True, copy_function=_link_or_copy)
    share, command = tree / "usr" / "share", tree / "usr" / "bin" / "attnscope"
    command.parent.mkdir(parents=True)
    command.symlink_to("/opt/attnscope/attnscope")
    desktop.write_share(share)
    desktop.write_pages(share, pages)
    papers = share / "doc" / "attnscope"
    papers.mkdir(parents=True)
    (papers / "copyright").write_text(_copyright(), encoding="utf-8")
    desktop.write_packed(papers / "changelog.gz", changelog_text(version))
    desktop.write_packed(papers / "NEWS.gz", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    overrides = share / "lintian" / "overrides" / "attnscope"
    overrides.parent.mkdir(parents=True)
    overrides.write_text(_OVERRIDES, encoding="utf-8")
    control = tree / "DEBIAN" / "control"
    control.parent.mkdir()
    control.write_text(
        control_text(version, _size_kib(tree), architecture(), needed_glibc(bundle)), encoding="utf-8"
    )
    _set_modes(tree)


def write_app_dir(bundle: Path, tree: Path, pages: Mapping[str, str]) -> None:
    """Lay out an AppDir below `tree`, which starts from any folder; `pages` as in `write_tree`."""
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(bundle, tree / "usr" / "lib" / "attnscope", symlinks=True, copy_function=_link_or_copy)
    share = tree / "usr" / "share"
    desktop.write_share(share)
    desktop.write_pages(share, pages)
    _write_start(tree / "AppRun", "usr/lib/attnscope/attnscope", needed_glibc(bundle))
    (tree / f"{APP_ID}.desktop").symlink_to(f"usr/share/applications/{APP_ID}.desktop")
    (tree / f"{APP_ID}.svg").symlink_to(f"usr/share/icons/hicolor/scalable/apps/{APP_ID}.svg")
    (tree / ".DirIcon").symlink_to(f"usr/share/icons/hicolor/256x256/apps/{APP_ID}.png")


def write_archive_tree(bundle: Path, tree: Path) -> None:
    """Lay out what the archive holds: the bundle, with a script before it that says if glibc is too old.

    A package asks for its libraries itself; to an archive nobody listens before the loader fails.
    """
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(bundle, tree, symlinks=True, copy_function=_link_or_copy)
    (tree / "attnscope").rename(tree / _PROGRAM)
    _write_start(tree / "attnscope", _PROGRAM, needed_glibc(bundle))


def _write_start(path: Path, program: str, glibc: str) -> None:
    """Write the script that starts a program, by its place from there, if glibc is new enough."""
    path.write_text(_START.format(program=program, minor=glibc.removeprefix("2.")), encoding="utf-8")
    path.chmod(0o755)


def needed_glibc(bundle: Path) -> str:
    """The version of glibc that the programs and libraries of a bundle ask for, such as 2.36.

    That of the system it was built on, or older. Where it is missing nothing starts: the package asks for it.
    """
    found = {(2, 28)}  # what PySide6's and torch's wheels need
    for path in bundle.rglob("*"):
        if not path.is_file() or path.is_symlink():
            continue
        with path.open("rb") as stream:
            if stream.read(4) == b"\x7fELF":
                with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
                    found |= {(int(match[1]), int(match[2])) for match in _GLIBC.finditer(data)}
    return ".".join(map(str, max(found)))


def control_text(version: str, size_kib: int, architecture: str, glibc: str) -> str:
    """The file DEBIAN/control."""
    return (
        "Package: attnscope\n"
        f"Version: {version}\n"
        f"Architecture: {architecture}\n"
        f"Maintainer: {MAINTAINER}\n"
        f"Installed-Size: {size_kib}\n"
        f"Depends: libc6 (>= {glibc}), {', '.join(DEPENDS)}\n"
        "Recommends: fonts-dejavu-core\n"
        "Section: science\n"
        "Priority: optional\n"
        "Description: see attention in Transformers, live\n"
        " AttnScope loads or trains a Transformer and shows what every layer and head\n"
        " attends to: heatmaps, lines from token to token, positional encodings,\n"
        " predictions before and after pruning a head, and training curves. Every view\n"
        " exports to SVG, PDF and PNG.\n"
        " .\n"
        " The package brings its own Python, Qt and PyTorch (for the CPU) in\n"
        " /opt/attnscope.\n"
    )


def changelog_text(version: str) -> str:
    """The entry of this version as Debian writes them, with the date that the metainfo gives it."""
    releases = ElementTree.parse(PACKAGING / f"{APP_ID}.metainfo.xml").iter("release")
    days = [release.get("date", "") for release in releases if release.get("version") == version]
    day = datetime.fromisoformat(days[0] if days else "1970-01-01").replace(hour=12, tzinfo=UTC)
    return (
        f"attnscope ({version}) stable; urgency=medium\n\n"
        "  * What is new: /usr/share/doc/attnscope/NEWS.gz\n\n"
        f" -- {MAINTAINER}  {format_datetime(day)}\n"
    )


def build_package(tree: Path, package: Path) -> None:
    """Pack the tree with dpkg-deb; all files belong to root."""
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(tree), str(package)], check=True)


def _copyright() -> str:
    licence = (ROOT / "LICENSE").read_text(encoding="utf-8")
    indented = "\n".join(f" {line}" if line.strip() else " ." for line in licence.strip().splitlines())
    return (
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"
        f"Upstream-Name: AttnScope\nUpstream-Contact: {MAINTAINER}\n\n"
        f"Files: *\nCopyright: 2026 The AttnScope authors\nLicense: MIT\n{indented}\n"
        "Comment: What the bundle contains of others, and under which licences, is in\n"
        " /opt/attnscope/_internal/licences and /opt/attnscope/_internal/sbom.cdx.json.\n"
    )


def _link_or_copy(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target


def _size_kib(tree: Path) -> int:
    files = (path for path in tree.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(-(-path.stat().st_size // 1024) for path in files)


def architecture() -> str:
    """This system's architecture as Debian names it, such as amd64."""
    done = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _set_modes(tree: Path) -> None:
    """Folders and programs 755, the rest 644, as packages have it."""
    for path in tree.rglob("*"):
        if path.is_symlink():
            continue
        is_program = path.is_dir() or (path.parent.name == "attnscope" and path.name == "attnscope")
        path.chmod(0o755 if is_program else 0o644)
