"""The services of the package: `models/` names all of them, and the package has all of them."""

import inspect
import re
from pathlib import Path

import pytest

from hf_localattn import models
from hf_localattn.installed.services import PackageServices
from hf_localattn.models.configuration_local_attention import InstalledServices, LocalAttentionConfig

SERVICES = {name: method for name, method in vars(InstalledServices).items() if not name.startswith("_")}


@pytest.mark.parametrize("name", SERVICES)
def test_the_package_has_each_service_as_models_call_it(name):
    assert name in vars(PackageServices)
    here, there = (getattr(services, name) for services in (LocalAttentionConfig.installed, InstalledServices()))
    expected = inspect.signature(there).parameters.values()
    parameters = inspect.signature(here).parameters.values()
    if expected and [*expected][-1].kind is inspect.Parameter.VAR_KEYWORD:  # it may name some of these
        parameters = [parameter for parameter in parameters if parameter.kind is not inspect.Parameter.KEYWORD_ONLY]
    assert [(one.name, one.kind) for one in parameters] == [(one.name, one.kind) for one in expected]


def test_a_misspelt_service_is_an_error_and_models_call_no_other():
    assert {name for name in vars(PackageServices) if not name.startswith("_")} == SERVICES.keys()
    with pytest.raises(AttributeError):
        InstalledServices().check_txets("a", None, False)
    code = "".join(path.read_text() for path in Path(models.__file__).parent.glob("*.py"))
    assert set(re.findall(r"\binstalled\.(\w+)\(", code)) <= SERVICES.keys()
