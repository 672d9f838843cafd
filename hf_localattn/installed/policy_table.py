"""Table of what a stranger's checkpoint may set, by file and entry.

What the table does not name is refused, unless it is null, false or empty. A rule is the name of a kind of values in
`policy_kinds.KINDS`, or a tuple of the values that are allowed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hf_localattn.names import RECORD, RESULTS, STATE

Rule = str | tuple[object, ...]


def _names(text: str) -> tuple[str, ...]:
    """Return the words of a text."""
    return tuple(text.split())


def _by_name(names: Mapping[str, str]) -> dict[str, Rule]:
    """Return the kind of each name, from the names of each kind."""
    return {name: kind for kind, text in names.items() for name in text.split()}


ENCODERS = frozenset(
    _names("""
    albert bert big_bird camembert convbert data2vec-text deberta deberta-v2 distilbert electra ernie eurobert
    flaubert fnet funnel gte ibert jina_embeddings_v3 longformer luke megatron-bert mobilebert modernbert mpnet
    nomic_bert nystromformer reformer rembert roberta roberta-prelayernorm roc_bert roformer squeezebert xlm
    xlm-roberta xlm-roberta-xl xlnet xmod
    """)
)
"""Values of `model_type` of text encoders: one model, made of tensors, which needs no kernel and no other library."""

ENCODER_DECODERS = frozenset(
    _names("""
    bart bigbird_pegasus blenderbot blenderbot-small fsmt led longt5 m2m_100 marian mbart mt5 mvp pegasus pegasus_x
    plbart prophetnet switch_transformers t5 umt5
    """)
)

ATTENTIONS = ("eager", "sdpa", "flex_attention")
"""Attention implementations of torch and transformers. Other names may stand for kernels on the Hub."""

ROTATIONS = ("default", "dynamic", "linear", "llama3", "longrope", "proportional", "yarn")
"""Types of rotary embeddings."""

_DTYPES = (None, "float16", "bfloat16", "float32", "float64")

_ACTIVATIONS = _names("""
gelu gelu_10 gelu_accurate gelu_fast gelu_new gelu_python gelu_python_tanh gelu_pytorch_tanh hardswish laplace
leaky_relu linear mish prelu quick_gelu relu relu2 relu6 sigmoid silu swish tanh
""")

_PROBLEMS = (None, "multi_label_classification", "regression", "single_label_classification")

GENERATION: Mapping[str, Rule] = {
    **_by_name(
        {
            "flag?": """
        _from_model_config assistant_early_exit disable_compile do_sample is_assistant low_memory
        output_attentions output_hidden_states output_logits output_scores remove_invalid_values
        renormalize_logits return_dict_in_generate token_healing use_cache
        """,
            "size?": """
        assistant_lookbehind max_length max_matching_ngram_size max_new_tokens num_assistant_tokens num_beams
        num_return_sequences prefill_chunk_size target_lookbehind
        """,
            "count?": "encoder_no_repeat_ngram_size min_length min_new_tokens no_repeat_ngram_size top_k",
            "share?": "assistant_confidence_threshold epsilon_cutoff eta_cutoff min_p top_h top_p typical_p",
            "number?": """
        diversity_penalty encoder_repetition_penalty guidance_scale length_penalty max_time repetition_penalty
        temperature
        """,
            "integer?": "bos_token_id decoder_start_token_id forced_bos_token_id pad_token_id",
            "integers": "begin_suppress_tokens eos_token_id forced_eos_token_id suppress_tokens",
            "data": "bad_words_ids exponential_decay_length_penalty sequence_bias",
            "text": "num_assistant_tokens_schedule transformers_version",
            "texts": "stop_strings",
        }
    ),
    "cache_implementation": (None, "dynamic"),
    "early_stopping": (None, False, True, "never"),
    "num_beam_groups": (None, 1),
}
"""`generation_config.json`. Ways to generate whose code is on the Hub are refused."""

CONFIG: Mapping[str, Rule] = {
    **GENERATION,
    **_by_name(
        {
            "flag": """
        adapter_layer_norm adapter_reuse_layer_norm add_cross_attention add_router_probs asm attention_bias
        axial_pos_embds bi_data causal classifier_bias concat_input decoder_bias deterministic_flash_attn
        disable_ngram_loss enable_pronunciation enable_shape gelu_activation inv_coeff_init_option is_encoder
        is_encoder_decoder key_query_shared_bottleneck legacy ln_before_adapter mlp_bias norm_bias onnx_export
        pool_q_only position_biased_input pre_norm quant_mode relative_attention rescale_embeddings rotary_value
        router_bias router_ignore_padding_tokens same_length scale_embedding separate_cls
        share_encoder_decoder_embeddings sinusoidal_embeddings sinusoidal_pos_embds sparse_prediction
        stagger_local_blocks summary_proj_to_labels summary_use_proj tie_word_embeddings trigram_input
        truncate_seq use_bias use_bottleneck use_bottleneck_attention use_cache use_entity_aware_attention
        use_lang_emb use_mems_eval use_mems_train use_prompt use_task_id use_tpu_fourier_optimizations
        """,
            "flag?": "return_dict torchscript use_bfloat16",
            "size": """
        adapter_reduction_factor attention_head_size block_size conv_kernel_size d_ff d_head d_inner d_kv
        d_model decoder_attention_heads decoder_ffn_dim dim emb_dim embedding_size encoder_attention_heads
        encoder_ffn_dim end_n_top entity_emb_size entity_vocab_size expert_capacity feed_forward_size
        global_block_size head_ratio hidden_dim hidden_size inner_group_num input_embedding_size
        intermediate_groups intermediate_size intra_bottleneck_size k_groups local_attention
        local_attn_chunk_length local_radius max_decoder_position_embeddings max_encoder_position_embeddings
        max_position_embeddings n_head n_heads n_langs n_token n_words ngram num_attention_heads
        num_decoder_attention_heads num_encoder_attention_heads num_experts num_feedforward_networks
        num_global_tokens num_groups num_hashes num_heads num_hidden_groups num_labels num_landmarks
        num_random_blocks output_embedding_size output_groups post_attention_groups pretraining_tp prompt_length
        prompt_mid_dim pronunciation_embed_dim pronunciation_vocab_size q_groups relative_attention_max_distance
        relative_attention_num_buckets relative_max_distance segment_means_seq_len shape_embed_dim
        shape_vocab_size src_vocab_size start_n_top task_type_vocab_size tgt_vocab_size tpu_short_seq_length
        true_hidden_size v_groups vocab_size
        """,
            "size?": "decoder_vocab_size head_dim lsh_attn_chunk_length num_key_value_heads",
            "sizes": "attention_window axial_pos_embds_dim axial_pos_shape block_repeats block_sizes num_buckets",
            "count": """
        chunk_size_feed_forward chunk_size_lm_head decoder_layers encoder_layers local_num_chunks_after
        local_num_chunks_before n_layer n_layers num_decoder_layers num_encoder_layers num_hidden_layers
        num_layers num_sparse_decoder_layers num_sparse_encoder_layers type_vocab_size
        """,
            "count?": "lsh_num_chunks_after lsh_num_chunks_before mem_len reuse_len",
            "integer": """
        bos_index clamp_len eos_index lang_id mask_index max_relative_positions pad_index
        sparse_pred_ignore_index unk_index
        """,
            "integer?": "cls_token_id hash_seed mask_token_id sep_token_id",
            "share": """
        activation_dropout attention_dropout attention_probs_dropout_prob classifier_dropout_prob dropout
        dropout_rate embedding_dropout hidden_dropout hidden_dropout_prob layerdrop
        local_attention_probs_dropout_prob mlp_dropout pooler_dropout qa_dropout seq_classif_dropout
        summary_first_dropout summary_last_dropout
        """,
            "share?": "classifier_dropout lsh_attention_probs_dropout_prob",
            "fraction": """
        axial_norm_std embed_init_std eps init_std initializer_cutoff_factor initializer_factor
        initializer_range layer_norm_eps layer_norm_epsilon norm_eps rms_norm_eps router_aux_loss_coef
        router_z_loss_coef
        """,
            "fraction?": "initializer_std",
            "number": "global_rope_theta local_rope_theta rope_theta router_jitter_noise",
            "text": "default_language",
            "texts": "attn_layers langs languages layer_types pos_att_type",
            "data": """
        _attn_implementation_autoset _num_labels _output_attentions add_bias_logits add_final_layer_norm
        classif_dropout cross_attention_hidden_size decoder_max_position_embeddings decoder_sparse_step
        directionality do_blenderbot_90_layernorm down_scale_factor encoder_sparse_step extra_pos_embeddings
        finetuning_task force_bos_token_to_be_generated gap_size global_attn_every_n_layers
        gradient_checkpointing hidden_states is_gated_act max_position net_structure_type norm_rel_ebd
        normalize_before normalize_embedding num_memory_blocks output_past pooler_fc_size pooler_hidden_size
        pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type position_embedding_type
        prefix repad_logits_with_grad scale_decoder_outputs share_att_key static_position_embeddings
        summary_hidden_size tf_legacy_loss tie_encoder_decoder tie_last_hidden_states tie_weights_
        untie_r use_return_dict z_steps
        """,
        }
    ),
    **dict.fromkeys(
        _names(
            "activation activation_function dense_act_fn ff_activation hidden_act hidden_activation pooler_hidden_act"
        ),
        _ACTIVATIONS,
    ),
    **dict.fromkeys(("dtype", "torch_dtype", "router_dtype"), _DTYPES),
    "architectures": "names",
    "attention_type": ("block_sparse", "factorized", "original_full", "relative_shift"),
    "attn_implementation": "attention",
    "_attn_implementation": "attention",
    "attn_type": ("bi", "uni"),
    "auto_map": "code",
    "classifier_activation": (*_ACTIVATIONS, None, False, True),
    "classifier_pooling": ("cls", "late", "mean"),
    "custom_pipelines": "code",
    "encoder_attention_type": ("local", "transient-global"),
    "experts_implementation": (None, "eager"),
    "feed_forward_proj": (*_ACTIVATIONS, *(f"gated-{name}" for name in _ACTIVATIONS)),
    "force_dequant": ("gelu", "layernorm", "none", "nonlinear", "softmax"),
    "id2label": "labels by number",
    "is_decoder": (False,),
    "label2id": "labels",
    "model_type": "text",
    "name_or_path": "text",
    "_name_or_path": "text",
    "normalization_type": ("layer_norm", "no_norm"),
    "pooling_type": ("max", "mean"),
    "problem_type": _PROBLEMS,
    "_commit_hash": "text",
    "pruned_heads": "object",
    "reference_compile": (None, False),
    "rope_parameters": "rotation",
    "rope_scaling": "rotation",
    "summary_activation": (*_ACTIVATIONS, None),
    "summary_type": ("attn", "cls_index", "first", "last", "mean"),
    "task_specific_params": "object",
    "tokenizer_class": "tokenizer",
}
"""`config.json` of a text encoder or an encoder-decoder, and `backbone_config` in that of a family.

Those that are "data" are of published configurations of former times.
"""

ENCODER_CONFIG: Mapping[str, Rule] = {
    **CONFIG,
    **dict.fromkeys(("add_cross_attention", "is_encoder_decoder"), (False,)),
    "is_encoder": (True,),
}
"""`config.json` of a text encoder."""

DIVISORS: Mapping[str, Sequence[str]] = {
    "hidden_size": ("num_attention_heads", "num_encoder_attention_heads", "num_decoder_attention_heads"),
    "d_model": ("encoder_attention_heads", "decoder_attention_heads"),
    "dim": ("n_heads",),
    "emb_dim": ("n_heads",),
}
"""Sizes that are multiples of numbers of heads, except in models of `UNDIVIDED`."""

UNDIVIDED = frozenset(_names("albert convbert electra gte jina_embeddings_v3 mobilebert nomic_bert reformer roformer"))

FAMILY_CONFIG: Mapping[str, Rule] = {
    **CONFIG,
    "backbone_config": "object",
    "hf_localattn_version": "text",
}
"""`config.json` of a family, besides the family's fields."""

TOKENIZERS = frozenset(
    _names("""
    AlbertTokenizer BartTokenizer BertTokenizer BigBirdTokenizer BlenderbotTokenizer CamembertTokenizer
    ConvBertTokenizer DebertaTokenizer DebertaV2Tokenizer DistilBertTokenizer ElectraTokenizer FNetTokenizer
    FunnelTokenizer LEDTokenizer LongformerTokenizer MBartTokenizer MPNetTokenizer MobileBertTokenizer MvpTokenizer
    PegasusTokenizer ProphetNetTokenizer ReformerTokenizer RemBertTokenizer RobertaTokenizer
    SqueezeBertTokenizer T5Tokenizer TokenizersBackend XLMRobertaTokenizer XLNetTokenizer
    """)
)
"""Classes of tokenizers that need no library besides `tokenizers`; also with the ending `Fast`."""

TOKENIZER: Mapping[str, Rule] = {
    **_by_name(
        {
            "flag?": """
        add_bos_token add_eos_token add_prefix_space clean_text clean_up_tokenization_spaces do_basic_tokenize
        do_lower_case do_subword_tokenize handle_chinese_chars is_local keep_accents legacy legacy_behaviour
        local_files_only lowercase only_label_first_subword remove_space split_by_punct split_special_tokens
        strip_accents tokenize_chinese_chars trim_offsets use_fast verbose
        """,
            "count?": "extra_ids offset pad_to_multiple_of pad_token_type_id stride",
            "data": "mask_token_sent padding truncation unk_id vocab_type",
            "text": """
        backend errors name_or_path processor_class special_tokens_map_file src_lang task tgt_lang
        transformers_version truncation_strategy wordpieces_prefix
        """,
            "texts": "model_input_names never_split",
        }
    ),
    "added_tokens_decoder": "tokens by number",
    "additional_special_tokens": "tokens",
    "auto_map": "code",
    "chat_template": "template",
    "max_len": "limit",
    "max_length": "limit",
    "model_max_length": "limit",
    "padding_side": (None, "left", "right"),
    "truncation_side": (None, "left", "right"),
    "extra_special_tokens": "tokens",
    "model_specific_special_tokens": "tokens",
    "sp_model_kwargs": "object",
    "tokenizer_class": "tokenizer",
}
"""`tokenizer_config.json`, besides the settings of a family's tokenizer. Names that end in `_token` are tokens."""

SPECIAL_TOKENS: Mapping[str, Rule] = {
    "additional_special_tokens": "tokens",
    "extra_special_tokens": "tokens",
}
"""`special_tokens_map.json`. Names that end in `_token` are tokens."""

WEIGHT_INDEX: Mapping[str, Rule] = {"metadata": "object", "weight_map": "weights"}
"""`model.safetensors.index.json`."""

EXPORT: Mapping[str, Rule] = {
    "has_segments": "flag",
    "labels": "texts",
    "mask_token": "text",
    "max_length": "size?",
    "model_type": "text",
    "no_answer_tokens": "integers",
    "padding": "padding",
    "problem_type": _PROBLEMS,
    "question_is_first": "flag",
    "task": "text",
    "trust_remote_code": "flag",
}
"""`export.json`."""

REMEDIES: Mapping[str, str] = {
    "attn_implementation": "Choose others when loading, with `attn_implementation=`.",
    "configuration_files": "It names another configuration: rename that to config.json.",
    "dola_layers": "Its code is on the Hub: pass it to `generate`.",
    "fast_tokenizer_files": "A tokenizer is read from the files beside it: remove the entry.",
    "fusion_config": "It changes classes of transformers: pass it to `from_pretrained`.",
    "distributed_config": "It describes one machine: pass it to `from_pretrained`.",
    "kernel_config": "It names kernels of the Hub: pass it to `from_pretrained`.",
    "penalty_alpha": "Its code is on the Hub: pass it to `generate`.",
    "quantization_config": (
        "It names other libraries: save the model before it is quantized, and quantize it when it is loaded."
    ),
    "transformers_weights": "It names the file of the weights: rename that to model.safetensors.",
    "use_kernels": "It asks for kernels of the Hub: pass it to `from_pretrained`.",
}
"""Remedies for entries that are instructions to transformers; for all others it is to remove the entry."""

TOLD = (RECORD, RESULTS, STATE)
"""Names of files that a card tells of. Their entries are data, and checked there."""

READ = (
    *("*.safetensors", "*.safetensors.index*.json", "config.json", "generation_config.json"),
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("*.jinja", "vocab.txt", "vocab.json", "merges.txt", "*.model", "export.json", "model.onnx", "model.onnx.data"),
    *TOLD,
)
"""Names of files without code that a load reads."""

PICKLES = ("pytorch_model*.bin", "pytorch_model*.bin.index*.json")
"""Names of weights that transformers unpickles if there are no others."""

CONVERSION = (
    "A .bin file is a pickle, which may run any code when it is read. If you trust it, convert it in its folder: "
    'python -c "import torch; from safetensors.torch import save_file; '
    "weights = torch.load('pytorch_model.bin', weights_only=True); "
    "save_file({name: value.clone() for name, value in weights.items()}, 'model.safetensors', {'format': 'pt'})\""
)
"""Remedy for weights that would have to be unpickled."""

_OTHER_LIBRARY = ("a vocabulary that needs another library", "Save the tokenizer with its tokenizer.json.")

REFUSED_FILES: Mapping[str, tuple[str, str]] = {
    ".metadata": (
        "the index of a distributed checkpoint, which would be unpickled",
        "Save the model with `save_pretrained` to another folder.",
    ),
    "adapter_config.json": (
        "an adapter, which can name any other model",
        "Load a model that you know, and add the adapter: `peft.PeftModel.from_pretrained(model, adapter)`.",
    ),
    "tekken.json": _OTHER_LIBRARY,
    "tiktoken.model": _OTHER_LIBRARY,
    "tokenizer.model.*": _OTHER_LIBRARY,
}
"""Names of files that would make a load read another model or a pickle, or need another library; reason and remedy."""

OF_WEIGHTS = (".metadata", "adapter_config.json")
"""Those of them that are read with weights only."""
