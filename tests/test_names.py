"""Names of families and tables, found without their modules."""

import pytest

from hf_localattn.names import check_family, family_names, table_names
from hf_localattn.registry import FAMILIES
from hf_localattn.reproduction import tables


def test_families_are_those_of_the_registry():
    assert family_names() == sorted(FAMILIES)
    with pytest.raises(ValueError, match=r"There is no family 'col'. Choose one of cool, oa-xlnet"):
        check_family("col")


def test_tables_are_those_that_can_be_reproduced():
    assert sorted(table_names()) == sorted(tables.table_names())
