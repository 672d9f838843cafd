"""Names of families, found without their modules."""

import pytest

from hf_localattn.names import check_family, family_names
from hf_localattn.registry import FAMILIES


def test_families_are_those_of_the_registry():
    assert family_names() == sorted(FAMILIES)
    with pytest.raises(ValueError, match=r"There is no family 'col'. Choose one of cool, oa-xlnet"):
        check_family("col")
