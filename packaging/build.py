"""Build what people install: `python packaging/build.py TARGET`, with the extra `package` installed.

wheel, sdist   Python packages in dist/, checked by twine; the sdist must build the same wheel
linux          the program with its own Python, Qt and PyTorch in one folder, as .tar.xz
deb            the same folder as a package for Debian and Ubuntu
appdir         the same folder as an AppImage's AppDir
flatpak        the manifest for flatpak-builder, of the .tar.xz
windows        the folder and its installer (on Windows, with Inno Setup); not yet tried
macos          the .app in a disk image (on macOS); not yet tried
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from datetime import UTC, datetime
from pathlib import Path

sys.path = [path for path in sys.path if Path(path or ".").resolve() != Path(__file__).resolve().parent]
sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1])]

from shipping import APP_ID, PACKAGING, ROOT, debian, desktop, manual, program_version, shells

DIST, BUILD = ROOT / "dist", ROOT / "build"
BUNDLE = BUILD / "bundle" / "attnscope"
MOST_WHEEL_BYTES, MOST_BUNDLE_BYTES = 70_000_000, 260_000_000


def run(*command: str | Path, **settings: str) -> None:
    """Run a command in the checkout; what it prints is shown. Raises CalledProcessError when it fails."""
    subprocess.run([str(word) for word in command], cwd=ROOT, env={**os.environ, **settings}, check=True)


def check_size(path: Path, most_bytes: int) -> None:
    """Print the size of a file; raises SystemExit when it is larger than it may be."""
    n_bytes = path.stat().st_size
    print(f"{path.relative_to(ROOT)}: {n_bytes / 1e6:.1f} MB", flush=True)
    if n_bytes > most_bytes:
        raise SystemExit(f"{path.name} has {n_bytes:,} bytes, more than {most_bytes:,}.")


def newest(pattern: str) -> Path:
    """The file of this version in dist/ that fits a pattern."""
    return max(DIST.glob(pattern), key=lambda path: path.stat().st_mtime)


def python_package(kind: str) -> Path:
    """The wheel or the sdist, checked by twine. It is made without a fresh environment: hatchling is here."""
    run(sys.executable, "-m", "build", "--no-isolation", f"--{kind}", "--outdir", DIST)
    version = program_version()
    path = newest(f"attnscope-{version}*.whl" if kind == "wheel" else f"attnscope-{version}.tar.gz")
    run(sys.executable, "-m", "twine", "check", "--strict", path)
    check_size(path, MOST_WHEEL_BYTES)
    return path


def build_wheel(_options: argparse.Namespace) -> None:
    """The wheel."""
    python_package("wheel")


def build_sdist(_options: argparse.Namespace) -> None:
    """The sdist; a wheel made from it alone has the files of one made from the checkout, byte for byte."""
    source, wheel = python_package("sdist"), python_package("wheel")
    folder = BUILD / "from-sdist"
    shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(source) as archive:
        archive.extractall(folder, filter="data")
    (unpacked,) = folder.iterdir()
    run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", folder / "dist", unpacked)
    (again,) = (folder / "dist").glob("*.whl")
    if wheel_content(wheel) != wheel_content(again):
        raise SystemExit(f"{source.name} builds another wheel than the checkout.")
    print(f"{source.name} builds the same wheel", flush=True)


def wheel_content(path: Path) -> dict[str, str]:
    """SHA-256 of every file of a wheel by its name."""
    with zipfile.ZipFile(path) as archive:
        return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in sorted(archive.namelist())}


def freeze(options: argparse.Namespace) -> Path:
    """The folder of the program with all it needs; with --keep the one that was built last."""
    if not (options.keep and BUNDLE.is_dir()):
        desktop.write_own_icons(BUILD / "icons")
        run(
            sys.executable, "-m", "PyInstaller", "--noconfirm", "--log-level", "WARN",
            "--distpath", BUNDLE.parent, "--workpath", BUILD / "work", PACKAGING / "attnscope.spec",
            ATTNSCOPE_BUNDLE="hf" if options.hf else "",
        )  # fmt: skip
    return BUNDLE


def bundle_name(options: argparse.Namespace) -> str:
    """The name of the bundle's archive, without an ending."""
    machine = "x86_64" if os.uname().machine == "x86_64" else os.uname().machine
    return f"attnscope-{program_version()}{'-hf' if options.hf else ''}-linux-{machine}"


def build_linux(options: argparse.Namespace) -> None:
    """The folder as .tar.xz."""
    tree = BUILD / "archive" / "attnscope"
    debian.write_archive_tree(freeze(options), tree)
    path = DIST / f"{bundle_name(options)}.tar.xz"
    DIST.mkdir(exist_ok=True)
    print("packing, which takes some minutes (XZ_OPT=-0: one)", flush=True)
    run("tar", "--create", "--use-compress-program", "xz -T0", "--owner=0", "--group=0", "--sort=name",
        "--file", path, "--directory", tree.parent, tree.name)  # fmt: skip
    check_size(path, MOST_BUNDLE_BYTES)


def pages() -> dict[str, str]:
    """The manual page and the completions of this version, by their places below `share`."""
    from attnscope.cli.main import COMMANDS, build_parser

    parser = build_parser([*COMMANDS])
    manual_page = manual.manual_page(parser, program_version(), date=f"{datetime.now(UTC):%Y-%m-%d}")
    return {"man/man1/attnscope.1": manual_page, **shells.completions(parser, COMMANDS)}


def build_deb(options: argparse.Namespace) -> None:
    """The package for Debian and Ubuntu."""
    tree = BUILD / "deb"
    debian.write_tree(freeze(options), tree, program_version(), pages())
    DIST.mkdir(exist_ok=True)
    with_library = (
        "-hf" if options.hf else ""
    )  # of the file's name alone: one package takes the other's place
    path = DIST / f"attnscope{with_library}_{program_version()}_{debian.architecture()}.deb"
    debian.build_package(tree, path)
    check_size(path, MOST_BUNDLE_BYTES)


def build_appdir(options: argparse.Namespace) -> None:
    """The AppDir, which `appimagetool` makes an AppImage of."""
    tree = BUILD / "AttnScope.AppDir"
    debian.write_app_dir(freeze(options), tree, pages())
    print(
        f"{tree.relative_to(ROOT)}: now run appimagetool {tree.name} (not part of this checkout)", flush=True
    )


def build_flatpak(options: argparse.Namespace) -> None:
    """The manifest; flatpak-builder takes the program from the archive of `linux`."""
    archive = DIST / f"{bundle_name(options)}.tar.xz"
    if not archive.is_file():
        build_linux(options)
    share = BUILD / "flatpak" / "share"
    desktop.write_share(share)
    desktop.write_pages(share, pages())
    manifest = json.loads((PACKAGING / "flatpak.json").read_text(encoding="utf-8"))
    sources = manifest["modules"][0]["sources"]
    sources[0] |= {"path": str(archive), "sha256": hashlib.sha256(archive.read_bytes()).hexdigest()}
    sources[1] |= {"path": str(share)}
    path = BUILD / "flatpak" / f"{APP_ID}.json"
    path.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    print(f"{path.relative_to(ROOT)}: now run flatpak-builder build/flatpak/app {path.name}", flush=True)


def build_windows(options: argparse.Namespace) -> None:
    """The installer, by Inno Setup's compiler."""
    need_system("win32", "Windows")
    freeze(options)
    run("iscc", f"/DVersion={program_version()}", f"/O{DIST}", PACKAGING / "windows" / "attnscope.iss")


def build_macos(options: argparse.Namespace) -> None:
    """The .app in a disk image; signed when ATTNSCOPE_CODESIGN_IDENTITY names an identity."""
    need_system("darwin", "macOS")
    freeze(options)
    app = BUNDLE.parent / "AttnScope.app"
    identity = os.environ.get("ATTNSCOPE_CODESIGN_IDENTITY", "-")
    run("codesign", "--force", "--deep", "--options", "runtime", "--entitlements",
        PACKAGING / "macos" / "entitlements.plist", "--sign", identity, app)  # fmt: skip
    DIST.mkdir(exist_ok=True)
    path = DIST / f"AttnScope-{program_version()}-{os.uname().machine}.dmg"
    run("hdiutil", "create", "-volname", "AttnScope", "-srcfolder", app, "-ov", "-format", "ULMO", path)


def need_system(platform: str, name: str) -> None:
    """Raise SystemExit elsewhere than on this system: a bundle is built where it runs."""
    if sys.platform != platform:
        raise SystemExit(
            f"This target is built on {name}; a bundle holds the libraries of the system it is built on."
        )


TARGETS = {
    "wheel": build_wheel,
    "sdist": build_sdist,
    "linux": build_linux,
    "deb": build_deb,
    "appdir": build_appdir,
    "flatpak": build_flatpak,
    "windows": build_windows,
    "macos": build_macos,
}


def main() -> None:
    """Entry point of a bundle: the command line, as `python -m attnscope`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("targets", nargs="+", choices=TARGETS, metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument(
        "--hf", action="store_true", help="bring transformers along (install the extra hf first)"
    )
    parser.add_argument("--keep", action="store_true", help="pack the bundle that was built last")
    options = parser.parse_args()
    for target in options.targets:
        TARGETS[target](options)
        options.keep = options.keep or target in ("linux", "deb", "appdir", "windows", "macos")


if __name__ == "__main__":
    main()
