"""The papers of a bundle: a bill of materials (CycloneDX), and the licence of all that it contains."""

import json
import re
import shutil
import subprocess
import sys
import sysconfig
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from . import PACKAGING, ROOT

SBOM = "sbom.cdx.json"
_EXTRAS = {False: (), True: ("hf",)}
_LICENCE = re.compile(r"(^|/)(licen[cs]e|copying|notice|authors)[^/]*$|(^|/)licenses/", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Something of others in the bundle: its package URL, its licence in its authors' words, the texts."""

    name: str
    version: str
    purl: str
    licence: str
    texts: tuple[Path, ...] = ()


def runtime_names(*, has_library: bool, requirements: Iterable[str] | None = None) -> list[str]:
    """The installed distributions that the program's requirements name, and what these require.

    `requirements` are lines as in pyproject.toml; by default they are read from it.
    """
    from packaging.requirements import Requirement

    rest = [Requirement(line) for line in (requirements or _own_requirements(has_library))]
    found: dict[str, None] = {}
    while rest:
        requirement = rest.pop()
        name = _normal(requirement.name)
        if name in found or (
            requirement.marker is not None and not requirement.marker.evaluate({"extra": ""})
        ):
            continue
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        found[name] = None
        rest += [Requirement(line) for line in distribution.requires or ()]
    return sorted(found)


def _own_requirements(has_library: bool) -> list[str]:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    return [*project["dependencies"], *(line for extra in _EXTRAS[has_library] for line in extras[extra])]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def compiled_parts(name: str) -> list[str]:
    """The modules beside a package, outside its folder, that its compiled files import (mypyc makes them)."""
    files = metadata.distribution(name).files or ()
    return [file.name.partition(".")[0] for file in files if len(file.parts) == 1 and "__mypyc." in file.name]


def held_distributions(
    modules: Iterable[str], owners: Mapping[str, Sequence[str]] | None = None
) -> list[str]:
    """The distributions that modules belong to; `owners` as `metadata.packages_distributions` has it."""
    owners = metadata.packages_distributions() if owners is None else owners
    tops = {module.partition(".")[0] for module in modules} - {"attnscope"}
    return sorted({_normal(name) for top in tops for name in owners.get(top, ())})


def foreign_packages(*, has_library: bool) -> list[str]:
    """The packages that are installed here but not required by the program, such as pytest."""
    needed = {"attnscope", *runtime_names(has_library=has_library)}
    owners = metadata.packages_distributions()
    return sorted(top for top, names in owners.items() if not needed & {_normal(name) for name in names})


def part_of(distribution: metadata.Distribution) -> Part:
    """Text about a distribution."""
    about = distribution.metadata.json
    licence = str(about.get("license_expression", "")) or _classified(about.get("classifier", ()))
    licence = licence or str(about.get("license", ""))
    texts = [
        Path(str(distribution.locate_file(file)))
        for file in distribution.files or ()
        if ".dist-info" in file.parts[0] and _LICENCE.search("/".join(file.parts[1:]))
    ]
    name, version = _normal(str(about["name"])), distribution.version
    return Part(
        name=name,
        version=version,
        purl=f"pkg:pypi/{name}@{version.replace('+', '%2B')}",
        licence=licence.strip().partition("\n")[0],
        texts=tuple(path for path in texts if path.is_file()),
    )


def _classified(classifiers: Iterable[str]) -> str:
    found = [line.rpartition(" :: ")[2] for line in classifiers if line.startswith("License :: ")]
    return " AND ".join(name for name in found if name != "OSI Approved")


def python_part() -> Part:
    """The interpreter itself."""
    version = ".".join(map(str, sys.version_info[:3]))
    text = Path(sysconfig.get_path("stdlib")) / "LICENSE.txt"
    return Part(
        name="python",
        version=version,
        purl=f"pkg:generic/python@{version}",
        licence="PSF-2.0",
        texts=(text,) if text.is_file() else (),
    )


def qt_part() -> Part:
    """Qt, whose libraries come inside the wheel of PySide6 and have the same version."""
    version = metadata.version("PySide6-Essentials")
    return Part(
        name="qt",
        version=version,
        purl=f"pkg:generic/qt@{version}",
        licence="LGPL-3.0-only",
        texts=tuple(sorted((PACKAGING / "licences").glob("*.txt"))),
    )


def system_parts(sources: Iterable[Path]) -> list[Part]:
    """Libraries that come from packages of Debian or Ubuntu; on other systems none are told apart."""
    if shutil.which("dpkg-query") is None:
        return []
    prefixes = {Path(sys.prefix), Path(sys.base_prefix), ROOT}
    names = set()
    for source in {path.resolve() for path in sources}:
        if not any(source.is_relative_to(prefix.resolve()) for prefix in prefixes):
            names.add(_debian_package(source))
    return [_debian_part(name) for name in sorted(names - {""})]


def _debian_package(file: Path) -> str:
    for path in (
        file,
        Path(str(file).removeprefix("/usr")),
    ):  # where /lib is a link to /usr/lib, dpkg knows one of both
        done = subprocess.run(["dpkg-query", "-S", str(path)], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.partition(":")[0].partition(",")[0]
    return ""


def _debian_part(name: str) -> Part:
    asked = ["dpkg-query", "-W", "-f", "${Version}\n", name]
    version = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split("\n")[0]
    text = Path(f"/usr/share/doc/{name}/copyright")
    return Part(
        name=name,
        version=version,
        purl=f"pkg:deb/debian/{name}@{version.replace('+', '%2B').replace(':', '%3A')}",
        licence="see its copyright file",
        texts=(text,) if text.is_file() else (),
    )


def bill_of_materials(version: str, parts: Iterable[Part]) -> dict[str, object]:
    """The bill as CycloneDX 1.6 has it: the same parts give the same bill, byte for byte."""
    ordered = sorted(parts, key=lambda part: part.purl)
    content = "\n".join([version, *(part.purl for part in ordered)])
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, content)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "attnscope",
                "name": "attnscope",
                "version": version,
                "purl": f"pkg:pypi/attnscope@{version}",
                "licenses": [{"license": {"id": "MIT"}}],
            }
        },
        "components": [
            {
                "type": "library",
                "bom-ref": part.purl,
                "name": part.name,
                "version": part.version,
                "purl": part.purl,
                **({"licenses": [{"license": {"name": part.licence}}]} if part.licence else {}),
            }
            for part in ordered
        ],
        "dependencies": [{"ref": "attnscope", "dependsOn": [part.purl for part in ordered]}],
    }


def write_papers(
    folder: Path, modules: Iterable[str], binaries: Iterable[Sequence[str]], version: str
) -> None:
    """Write bill, licences and the page on Qt for a bundle that holds these modules and binaries.

    `binaries` are pairs or triples of a place in the bundle and a source, as PyInstaller lists them. Raises
    ValueError when a part comes without the text of its licence.
    """
    names = [name for name in held_distributions(modules) if name != "attnscope"]
    parts = [part_of(metadata.distribution(name)) for name in names]
    parts += [python_part(), qt_part(), *system_parts(Path(entry[1]) for entry in binaries)]
    shutil.rmtree(folder, ignore_errors=True)
    licences = folder / "licences"
    licences.mkdir(parents=True)
    for part in parts:
        _copy_texts(part, licences / part.name)
    for name in ("LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, licences / name)
    shutil.copy(PACKAGING / "licences" / "QT.md", licences / "QT.md")
    bill = json.dumps(bill_of_materials(version, parts), indent=1, ensure_ascii=False)
    (folder / SBOM).write_text(bill + "\n", encoding="utf-8")


_UNDER_QT = ("pyside6-essentials", "shiboken6")
"""Their wheels hold no licence text; they are under Qt's."""


def _copy_texts(part: Part, folder: Path) -> None:
    if part.name in _UNDER_QT:
        return
    own = PACKAGING / "licences" / "parts" / f"{part.name}.txt"
    texts = part.texts or ((own,) if own.is_file() else ())
    if not texts:
        raise ValueError(
            f"{part.name} {part.version} ({part.licence}) comes without its licence. Put its text at {own}."
        )
    folder.mkdir()
    for text in texts:
        place = folder / _below_licences(text)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(text, place)


def _below_licences(text: Path) -> Path:
    """Path of a text below the folder `licenses` of its distribution, or its bare name."""
    parts = text.parts
    return Path(*parts[parts.index("licenses") + 1 :]) if "licenses" in parts else Path(text.name)
