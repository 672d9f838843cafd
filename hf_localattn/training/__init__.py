"""Training, evaluating and sharing models, as the scripts do."""

from hf_localattn.extras import require

require("train", __name__)
