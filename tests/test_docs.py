"""The documentation has every page, every public name, no broken link, and docstrings that begin as they should."""

import re
import runpy
import zlib
from pathlib import Path

import pytest
import yaml

from hf_localattn.registry import FAMILIES
from tests.test_public_api import public_names

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PUBLIC = [
    f"{module}.{name}" for module, names in public_names().items() for name in names if not name.startswith("__")
]


class Lenient(yaml.SafeLoader):
    """A reader of mkdocs.yml that passes over the tags of Python objects."""


Lenient.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)
NAV = yaml.load((ROOT / "mkdocs.yml").read_text(), Lenient)["nav"]


def pages_of(nav):
    """Return the paths of the pages in a navigation."""
    if isinstance(nav, str):
        return [nav]
    return [page for entry in (nav.values() if isinstance(nav, dict) else nav) for page in pages_of(entry)]


def test_the_navigation_has_all_pages_and_no_others():
    assert sorted(pages_of(NAV)) == sorted(
        path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md") if path.parent.name != "results"
    )


def test_the_reference_has_every_public_name():
    text = "".join(path.read_text() for path in (DOCS / "reference").glob("*.md"))
    shown = {line.removeprefix("::: ") for line in text.splitlines() if line.startswith("::: ")}
    # The package has the names of `models`, which are documented once.
    missing = [
        name
        for name in PUBLIC
        if name not in shown and name.replace("hf_localattn.models.", "hf_localattn.") not in shown
    ]
    assert not missing, f"Add `::: NAME` to a page of docs/reference for {', '.join(missing)}."


def test_every_family_has_a_page_with_its_current_fields():
    render = runpy.run_path(str(ROOT / "scripts" / "family_pages.py"))["render"]
    pages = [path.read_text() for path in (DOCS / "families").glob("*.md")]
    for name in FAMILIES:
        for kind in ("fields", "ablations"):
            assert any(f"<!-- generated: {kind} {name} -->" in page for page in pages)
    assert pages == [render(page) for page in pages], "Run `python -m scripts.family_pages`."


FIRST_WORDS = ("What", "Which", "Whether", "How", "Of", "Where", "Whatever", "Who")
"""With these a reader has to wait for the end of a sentence to know what it is about."""

FILES = [
    path
    for folder in ("hf_localattn", "benchmarks", "examples", "scripts")
    for path in sorted((ROOT / folder).rglob("*.py"))
] + sorted(ROOT.glob("run_*.py"))


def test_docstrings_begin_with_a_verb_or_with_what_the_thing_is():
    assert len(FILES) > 100
    first = {path: re.findall(r'"""(\w+)', path.read_text(encoding="utf-8")) for path in FILES}
    assert not {str(path): word for path, words in first.items() for word in words if word in FIRST_WORDS}


def build(config, folder):
    """Build the site as `make docs` does. Return its warnings, for which a strict build fails."""
    from mkdocs.commands.build import build as build_site
    from mkdocs.config import load_config
    from mkdocs.exceptions import Abort

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(config.parent)
        try:
            build_site(load_config(str(config), strict=True, site_dir=str(folder)))
        except Abort as error:
            return str(error)
    return ""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs", reason="the extra `docs` is not installed")
    folder = tmp_path_factory.mktemp("site")
    assert not build(ROOT / "mkdocs.yml", folder)
    return folder


@pytest.mark.docs
def test_every_public_name_is_documented_in_the_site(site):
    inventory = zlib.decompress((site / "objects.inv").read_bytes().split(b"\n", 4)[4]).decode()
    undocumented = {*PUBLIC} - {line.split(" py:")[0] for line in inventory.splitlines()}
    assert not undocumented, f"Name {sorted(undocumented)} in a page of docs/reference."


@pytest.mark.docs
def test_every_public_name_has_a_docstring():
    griffe = pytest.importorskip("griffe", reason="the extra `docs` is not installed")
    package = griffe.load("hf_localattn", search_paths=[str(ROOT)], resolve_aliases=True)
    names = [name.removeprefix("hf_localattn.") for name in PUBLIC]
    assert not [name for name in names if not package[name].docstring]


@pytest.mark.docs
def test_the_site_asks_no_other_server(site):
    for page in site.rglob("*.html"):
        for tag in ("<script src=", '<link rel="stylesheet" href=', "<img src="):
            assert f'{tag}"http' not in page.read_text()


@pytest.mark.docs
def test_the_parts_that_are_written_by_a_program_are_there(site):
    page = (site / "families" / "cool.html").read_text()
    assert "outlook_kernel_size" in page
    assert "python -m reproduction cool-1" in page
    assert "<math " in page
    assert "extractive question answering" in (site / "reference" / "command_line.html").read_text()
    assert "scope_exact_match" in (site / "reference" / "metrics.html").read_text()
    assert "<!-- generated" not in (site / "reference" / "command_line.html").read_text()


@pytest.mark.docs
@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[a page](nowhere.md)", "nowhere.md"),
        ("[a heading](scripts.md#nowhere)", "#nowhere"),
        ("::: hf_localattn.CoolModle", "hf_localattn.CoolModle"),
    ],
    ids=["page", "heading", "name"],
)
def test_a_broken_link_or_name_fails_with_its_place(text, place, tmp_path, caplog):
    pytest.importorskip("mkdocs", reason="the extra `docs` is not installed")
    settings = (ROOT / "mkdocs.yml").read_text()
    for name, path in (
        ("docs_dir: docs", f"docs_dir: {tmp_path}/docs"),
        ("- scripts/", f"- {ROOT}/scripts/"),
    ):
        settings = settings.replace(name, path)
    settings = settings.replace('paths: ["."]', f'paths: ["{ROOT}"]').split("\nnav:")[0]
    (tmp_path / "docs").mkdir()
    (tmp_path / "mkdocs.yml").write_text(settings)
    (tmp_path / "docs" / "scripts.md").write_text("# Scripts\n")
    (tmp_path / "docs" / "index.md").write_text(f"# Page\n\n{text}\n")
    assert build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert any(place in message for message in caplog.messages)
    assert any("index.md" in message for message in caplog.messages)
