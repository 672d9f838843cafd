"""Entry of the toy family."""

from hf_localattn.models.configuration_toy import ToyConfig

from hf_localattn.families.family import Family, View

FAMILY = Family(
    config=ToyConfig,
    example="A toy is read.",
    local_map=View(
        is_available=lambda config: config.num_toy_layers > 0, settings="num_toy_layers > 0", title="toy attention"
    ),
)
