"""The one table of those of transformers' tests that do not pass, each with its reason.

There are three kinds of reasons. "needs ...": the test skips itself where something is missing that other machines
have; it may pass there, and may not fail. "the backbone ...": transformers' own class for the task, on the same
backbone, does not pass the test either, which is tried. All others are about the test or about our models: the test
has to fail, or to skip itself, as long as the line stands here. The first line that fits counts; `None`: it passes.
"""

from fnmatch import fnmatch

CLASSES = "*"
GENERATION = "cool/text2text-generation/*"
BART = "cool/text2text-generation/bart"
PROPHETNET = "cool/text2text-generation/prophetnet"
XLNET = "*/*/xlnet"

ACCELERATOR = "needs an accelerator"
FLASH = "needs a GPU and flash attention"
SLOW = "needs RUN_SLOW=1 and exporters; ours: test_exports_with_any_batch_and_length, tests/test_adapting.py"
DEEPSPEED = "needs deepspeed"
OTHER_KIND = "is about another kind of model: "
NO_CHECKPOINTING = (
    "asks the class, which serves many backbones; only the model knows that XLNet has none, and says so "
    "(test_gradient_checkpointing_is_refused_where_the_backbone_has_none)"
)
NO_RECORDER = "the backbone gives its outputs by itself and not by transformers' recorder"
NOT_BY_INTERFACE = "the backbone does not go through transformers' attention interface: it is always eager"
PROPHETNET_CACHE = "the backbone reads one token at a time with its cache, which is none of transformers' usual ones"

EXCLUDED = [
    # What other machines have.
    (CLASSES, "test_can_load_with_device_context_manager", ACCELERATOR),
    (CLASSES, "test_can_load_with_global_device_set", ACCELERATOR),
    (CLASSES, "test_cpu_offload", ACCELERATOR),
    (CLASSES, "test_disk_offload_*", ACCELERATOR),
    (CLASSES, "test_flex_attention_with_grads", ACCELERATOR),
    (CLASSES, "test_sdpa_can_compile_dynamic", ACCELERATOR),
    (CLASSES, "test_sdpa_can_dispatch_on_flash", ACCELERATOR),
    (
        CLASSES,
        "test_torch_compile_for_training",
        "needs an accelerator and RUN_SLOW=1; ours: test_compiles_as_one_graph",
    ),
    (CLASSES, "test_model_parallel*", "needs several accelerators"),
    (CLASSES, "test_flash_attn_kernels_mps_*", "needs a Mac"),
    (CLASSES, "test_flash_att*", FLASH),
    (CLASSES, "test_eager_matches_fa?_generate", FLASH),
    (CLASSES, "test_kernels_can_load_without_crashing", "needs the library kernels and an accelerator"),
    (CLASSES, "test_*_with_deepspeed*", DEEPSPEED),
    (CLASSES, "test_torch_export_*", SLOW),
    (CLASSES, "test_onnx_export_*", SLOW),
    (CLASSES, "test_executorch_export_*", SLOW),
    (CLASSES, "test_eager_matches_sdpa_generate", "needs RUN_SLOW=1"),
    (CLASSES, "test_generate_with_quant_cache", "needs optimum-quanto"),
    # What is about models of other kinds.
    (CLASSES, "test_causal_lm_loss_honors_shift_labels", OTHER_KIND + "decoders"),
    (
        PROPHETNET,
        "test_encoder_decoder_loss_no_double_shift",
        "the backbone's loss is of several tokens to come, of which the logits are those of the first",
    ),
    (BART, "test_encoder_decoder_loss_no_double_shift", None),
    (CLASSES, "test_encoder_decoder_loss_no_double_shift", OTHER_KIND + "encoder-decoders"),
    (CLASSES, "test_eager_matches_batched_and_grouped_inference_*", OTHER_KIND + "mixtures of experts"),
    (CLASSES, "test_moe_models_record_router_logits", OTHER_KIND + "mixtures of experts"),
    (CLASSES, "test_output_router_logits_from_config", OTHER_KIND + "mixtures of experts"),
    (CLASSES, "test_model_rope_*", OTHER_KIND + "rotary positions in the tested model's own configuration"),
    (CLASSES, "test_vision_axial_rope", OTHER_KIND + "models of images"),
    (CLASSES, "test_sdpa_can_dispatch_composite_models", OTHER_KIND + "composites of text and images"),
    (CLASSES, "test_sdpa_can_dispatch_non_composite_models", OTHER_KIND + "models without a backbone's configuration"),
    (CLASSES, "test_sliding_window_mask", OTHER_KIND + "sliding windows"),
    (CLASSES, "test_resize_position_vector_embeddings", OTHER_KIND + "positions that can be resized"),
    (CLASSES, "test_keep_in_fp32_modules*", OTHER_KIND + "parts that stay in fp32"),
    (CLASSES, "test_tied_head_has_a_tp_plan_entry", OTHER_KIND + "plans of tensor parallelism"),
    (CLASSES, "test_tp_plan_matches_params", OTHER_KIND + "plans of tensor parallelism"),
    (CLASSES, "test_can_load_from_already_mapped_keys", OTHER_KIND + "checkpoints whose weights have had other names"),
    (CLASSES, "test_reverse_loading_mapping", OTHER_KIND + "checkpoints whose weights have had other names"),
    (
        PROPHETNET,
        "test_custom_4d_attention_mask",
        "the backbone cannot be compiled without breaks, and so is left out",
    ),
    (GENERATION, "test_left_padding_compatibility", OTHER_KIND + "decoders"),
    (GENERATION, "test_generate_continue_from_inputs_embeds", OTHER_KIND + "decoders"),
    (GENERATION, "test_generate_with_and_without_position_ids", OTHER_KIND + "decoders"),
    (GENERATION, "test_*_padding_matches_padding_free_with_position_ids", OTHER_KIND + "decoders"),
    (GENERATION, "test_generate_with_mtp", OTHER_KIND + "decoders that predict several tokens"),
    (GENERATION, "test_recurrent_layers_mask_padding_on_continued_forward", OTHER_KIND + "recurrent decoders"),
    (GENERATION, "test_*_with_logits_to_keep", "the backbone has no `logits_to_keep`"),
    # What a test takes for granted.
    (
        CLASSES,
        "test_eager_matches_sdpa_inference_24_*",
        "asks `forward` for a parameter `output_attentions`; ours takes "
        "keywords, and hands it on (test_attention_outputs)",
    ),
    (
        "[!s]*/text-classification/*",
        "test_can_load_ignoring_mismatched_shapes",
        "looks for a linear layer or a Sequential as the head; this one is a module of its own, `PooledClassifier`",
    ),
    (
        "sla-bert/text-classification/*",
        "test_can_load_ignoring_mismatched_shapes",
        "looks for a linear layer or a Sequential as the head; this one is a module of its own, `BackboneHead`",
    ),
    (XLNET, "test_gradient_checkpointing_*", NO_CHECKPOINTING),
    (XLNET, "test_peft_gradient_checkpointing_*", NO_CHECKPOINTING),
    ("*/*[!s]/xlnet", "test_training_gradient_checkpointing*", NO_CHECKPOINTING),
    (XLNET, "test_enable_input_require_grads_with_gradient_checkpointing", NO_CHECKPOINTING),
    (
        XLNET,
        "test_retain_grad_hidden_states_attentions",
        "the backbone hands out copies of its states, without gradients",
    ),
    (
        XLNET,
        "test_can_capture_specific_layers_hidden_states",
        NO_RECORDER + "; ours: test_some_hidden_states_of_every_backbone",
    ),
    (XLNET, "test_capture_outputs_decorator", NO_RECORDER),
    (XLNET, "test_can_set_attention_dynamically*", NOT_BY_INTERFACE),
    # Generation.
    (GENERATION, "test_attention_outputs", "counts the outputs; ours has one more, `local_attentions`"),
    (
        GENERATION,
        "test_can_capture_specific_layers_hidden_states",
        "asks for `hidden_states`; encoder-decoders have "
        "those of encoder and decoder. Ours: tests/models/test_generation.py",
    ),
    (GENERATION, "test_inherits_generation_mixin", "asks for a direct base; ours has the mixin by its head"),
    (GENERATION, "test_model_base_model_prefix", "asks for a headless model inside; the backbone inside is whole"),
    (
        BART,
        "test_attn_implementation_composite_models",
        "sets the attention of the decoder alone; of BART's configuration, which is both sides', it is given a copy",
    ),
    (
        PROPHETNET,
        "test_retain_grad_hidden_states_attentions",
        "the backbone hands out slices of its decoder's states, which get no gradients",
    ),
    (PROPHETNET, "test_can_set_attention_dynamically*", NOT_BY_INTERFACE),
    (PROPHETNET, "test_capture_outputs_decorator", NO_RECORDER),
    (PROPHETNET, "test_assisted_decoding_*", PROPHETNET_CACHE),
    (GENERATION, "test_*static_cache*", "the backbone has no static cache"),
    (PROPHETNET, "test_generate_compil*", "the backbone cannot be compiled without breaks"),
    (BART, "test_generate_compilation_all_outputs", "the backbone has no static cache"),
]


def reason_for(suite: tuple[str, str, str], test: str) -> str | None:
    """Return why a test of a suite (family, task, backbone) does not pass, or `None` if it has to."""
    name = "/".join(suite)
    return next((reason for one, tests, reason in EXCLUDED if fnmatch(name, one) and fnmatch(test, tests)), None)
