"""The documentation has every page and public name, no broken link, and tables that are true."""

import re
import runpy
import zlib
from pathlib import Path

import pytest

from hf_localattn.families import FAMILIES
from tests.test_public_api import names_of_families, public_names

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PUBLIC = [
    f"{module}.{name}" for module, names in public_names().items() for name in names if not name.startswith("__")
]


def test_the_navigation_has_all_pages_and_no_others():
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    elsewhere = ("families", "results")  # scripts/docs_hooks.py adds the pages of families
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md") if path.parent.name not in elsewhere}
    pages.add("families/index.md")
    assert sorted(re.findall(r"^ +- (?:.*: )?(\S+\.md)$", nav, flags=re.MULTILINE)) == sorted(pages)


def test_the_reference_has_every_public_name():
    text = "".join(path.read_text() for path in (DOCS / "reference").glob("*.md"))
    shown = {line.removeprefix("::: ") for line in text.splitlines() if line.startswith("::: ")}
    # The package has the names of `models`, which are documented once.
    missing = {name for name in PUBLIC if not shown & {name, name.replace("hf_localattn.models.", "hf_localattn.")}}
    assert not missing, f"Add `::: NAME` to a page of docs/reference for {', '.join(missing)}."


def test_the_versions_of_other_libraries_are_those_that_run():
    page = (DOCS / "consumers.md").read_text()
    rows = re.findall(r"^\| \[.+?\]\(#.+?\) \|(.+?)\|", page, flags=re.MULTILINE)
    files = ("Makefile", "constraints.txt", "tests/consumers/requirements.txt")
    pins = "".join((ROOT / file).read_text() for file in files)
    assert all(f"=={version}\n" in pins for row in rows for version in re.findall(r"[\d.]+\.\d+", row))


def test_every_family_has_a_page_with_its_current_fields():
    render = runpy.run_path(str(ROOT / "scripts" / "family_pages.py"))["render"]
    pages = [path.read_text() for path in (DOCS / "families").glob("*.md")]
    for name in FAMILIES:
        for kind in ("fields", "ablations"):
            assert any(f"<!-- generated: {kind} {name} -->" in page for page in pages)
    assert pages == [render(page) for page in pages], "Run `python -m scripts.family_pages`."


CAPABILITIES = runpy.run_path(str(ROOT / "scripts" / "capabilities.py"), run_name="capabilities")
CHECKS, can = CAPABILITIES["CAPABILITIES"], CAPABILITIES["can"]
QUICK = ("SDPA", "checkpointing", "bf16")
(BLOCK,) = re.findall(
    f"{CAPABILITIES['BEGIN']}\n(.*?)\n{CAPABILITIES['END']}", (DOCS / "backbones.md").read_text(), flags=re.DOTALL
)
HEADER, _, *ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in BLOCK.splitlines()]
MEASURED = {row[0]: dict(zip(HEADER[1:], row[1:], strict=True)) for row in ROWS}
TESTED = [(name, backbone) for name, family in FAMILIES.items() for backbone in family.config.tested_backbones]
LISTED = [(name, backbone) for name, backbone in TESTED if f"`{name}` on {backbone}" in MEASURED]
COMPILED = pytest.mark.slow(reason="compiles every backbone")


def test_the_table_of_backbones_is_complete():
    assert [*CHECKS] == HEADER[1:]
    missing = sorted({f"`{family}` on {backbone}" for family, backbone in TESTED} ^ MEASURED.keys())
    assert not missing, f"Run `python -m scripts.capabilities FAMILY` for {', '.join(missing)}."


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in QUICK else COMPILED) for name in CHECKS])
@pytest.mark.parametrize(("family", "backbone"), LISTED)
def test_the_table_of_backbones_is_true(family, backbone, name):
    able = can(CHECKS[name], CAPABILITIES["subject"](family, backbone, name))
    assert MEASURED[f"`{family}` on {backbone}"][name] == ("yes" if able else "no")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site as `make docs` builds it: warnings are errors."""
    build = pytest.importorskip("mkdocs.commands.build", reason="the extra `docs` is not installed").build
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        build(load_config("mkdocs.yml", strict=True, site_dir=str(folder)))
    return folder


@pytest.mark.docs
def test_every_public_name_is_in_the_site_and_has_a_docstring(site):
    inventory = zlib.decompress((site / "objects.inv").read_bytes().split(b"\n", 4)[4]).decode()
    public = {*PUBLIC, *(f"hf_localattn.{name}" for name in names_of_families())}
    undocumented = public - {line.split(" py:")[0] for line in inventory.splitlines()}
    assert not undocumented, f"Name {sorted(undocumented)} in a page of docs/reference."
    package = pytest.importorskip("griffe").load("hf_localattn", search_paths=[str(ROOT)], resolve_aliases=True)
    assert not [name for name in public if not package[name.removeprefix("hf_localattn.")].docstring]


@pytest.mark.docs
def test_the_parts_that_are_written_by_a_program_are_there_and_no_page_asks_another_server(site):
    page = (site / "families" / "cool.html").read_text()
    assert "outlook_kernel_size" in page
    assert "python -m reproduction cool-1" in re.sub("<.*?>", "", page)  # each word of code has a tag
    assert "<math " in page
    assert "extractive question answering" in (site / "reference" / "command_line.html").read_text()
    assert "scope_exact_match" in (site / "reference" / "metrics.html").read_text()
    assert "<!-- generated" not in (site / "reference" / "command_line.html").read_text()
    for other in site.rglob("*.html"):
        assert not re.search(r'<(script src|link rel="stylesheet" href|img src)="http', other.read_text())
