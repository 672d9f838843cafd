"""Table of what a stranger's checkpoint may set, by file and entry.

What the table does not name is refused, unless it is null, false or empty. A rule is the name of a kind of values in
`policy_kinds.KINDS`, or a tuple of the values that are allowed.
"""

from __future__ import annotations

from collections.abc import Mapping

Rule = str | tuple[object, ...]


def _names(text: str) -> tuple[str, ...]:
    """Return the words of a text."""
    return tuple(text.split())


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

_DTYPES = (None, "float16", "bfloat16", "float32", "float64")

_ACTIVATIONS = (
    None,
    *_names("""
    gelu gelu_10 gelu_accurate gelu_fast gelu_new gelu_python gelu_python_tanh gelu_pytorch_tanh hardswish laplace
    leaky_relu linear mish prelu quick_gelu relu relu2 relu6 sigmoid silu swish tanh
    """),
)

_NUMBERS_AND_TEXTS = _names("""
_attn_implementation_autoset _num_labels _output_attentions activation_dropout adapter_layer_norm
adapter_reduction_factor adapter_reuse_layer_norm add_bias_logits add_cross_attention add_final_layer_norm
add_router_probs asm attention_bias attention_dropout attention_head_size attention_probs_dropout_prob
attention_type attention_window attn_layers attn_type axial_norm_std axial_pos_embds axial_pos_embds_dim
axial_pos_shape bad_words_ids begin_suppress_tokens bi_data block_repeats block_size block_sizes bos_index
bos_token_id causal chunk_size_feed_forward chunk_size_lm_head clamp_len classif_dropout classifier_bias
classifier_dropout classifier_dropout_prob classifier_pooling cls_token_id concat_input conv_kernel_size
cross_attention_hidden_size d_ff d_head d_inner d_kv d_model decoder_attention_heads decoder_bias decoder_ffn_dim
decoder_layerdrop decoder_layers decoder_max_position_embeddings decoder_start_token_id decoder_vocab_size
default_language deterministic_flash_attn dim directionality disable_ngram_loss diversity_penalty
do_blenderbot_90_layernorm do_sample down_scale_factor dropout dropout_rate early_stopping emb_dim embed_init_std
embedding_dropout embedding_size enable_pronunciation enable_shape encoder_attention_heads encoder_attention_type
encoder_ffn_dim encoder_layerdrop encoder_layers encoder_no_repeat_ngram_size encoder_repetition_penalty
end_n_top entity_emb_size entity_vocab_size eos_index eos_token_id eps epsilon_cutoff eta_cutoff expert_capacity
exponential_decay_length_penalty extra_pos_embeddings feed_forward_proj feed_forward_size finetuning_task
force_bos_token_to_be_generated force_dequant forced_bos_token_id forced_eos_token_id gap_size gelu_activation
global_attn_every_n_layers global_block_size global_rope_theta gradient_checkpointing hash_seed head_dim
head_ratio hidden_dim hidden_dropout hidden_dropout_prob hidden_size hidden_states init_std
initializer_cutoff_factor initializer_factor initializer_range initializer_std inner_group_num
input_embedding_size intermediate_groups intermediate_size intra_bottleneck_size inv_coeff_init_option is_decoder
is_encoder is_encoder_decoder k_groups key_query_shared_bottleneck lang_id langs languages layer_norm_eps
layer_norm_epsilon layer_types layerdrop legacy length_penalty ln_before_adapter
local_attention local_attention_probs_dropout_prob local_attn_chunk_length
local_num_chunks_after local_num_chunks_before
local_radius local_rope_theta lsh_attention_probs_dropout_prob lsh_attn_chunk_length lsh_num_chunks_after
lsh_num_chunks_before mask_index mask_token_id max_decoder_position_embeddings max_encoder_position_embeddings
max_length max_position max_position_embeddings max_relative_positions mem_len min_length mlp_bias mlp_dropout
n_head n_heads n_langs n_layer n_layers n_token n_words net_structure_type ngram no_repeat_ngram_size norm_bias
norm_eps norm_rel_ebd normalization_type normalize_before normalize_embedding num_attention_heads num_beam_groups
num_beams num_buckets num_decoder_attention_heads num_decoder_layers num_encoder_attention_heads
num_encoder_layers num_experts num_feedforward_networks num_global_tokens num_groups num_hashes num_heads
num_hidden_groups num_hidden_layers num_key_value_heads num_labels num_landmarks num_layers num_memory_blocks
num_random_blocks num_return_sequences num_sparse_decoder_layers num_sparse_encoder_layers onnx_export
output_attentions output_embedding_size output_groups output_hidden_states output_logits output_past
output_scores pad_index pad_token_id pool_q_only pooler_dropout pooler_fc_size pooler_num_attention_heads
pooler_num_fc_layers pooler_size_per_head pooler_type pooling_type pos_att_type position_biased_input
position_embedding_type post_attention_groups pre_norm prefix pretraining_tp problem_type prompt_length
prompt_mid_dim pronunciation_embed_dim pronunciation_vocab_size q_groups qa_dropout quant_mode relative_attention
relative_attention_max_distance relative_attention_num_buckets relative_max_distance remove_invalid_values
repad_logits_with_grad repetition_penalty rescale_embeddings return_dict return_dict_in_generate reuse_len
rms_norm_eps rope_theta rotary_value router_aux_loss_coef router_bias router_ignore_padding_tokens
router_jitter_noise router_z_loss_coef same_length scale_embedding segment_means_seq_len sep_token_id
separate_cls seq_classif_dropout shape_embed_dim shape_vocab_size share_att_key share_encoder_decoder_embeddings
sinusoidal_embeddings sinusoidal_pos_embds sparse_pred_ignore_index sparse_prediction src_vocab_size
stagger_local_blocks start_n_top static_position_embeddings summary_first_dropout summary_hidden_size
summary_last_dropout summary_proj_to_labels summary_type summary_use_proj suppress_tokens task_type_vocab_size
temperature tf_legacy_loss tgt_vocab_size tie_encoder_decoder tie_last_hidden_states tie_weights_
tie_word_embeddings top_k top_p torchscript tpu_short_seq_length transformers_version trigram_input truncate_seq
type_vocab_size typical_p unk_index untie_r use_bfloat16 use_bias use_bottleneck use_bottleneck_attention
use_cache use_entity_aware_attention use_lang_emb use_mems_eval use_mems_train use_prompt use_return_dict
use_task_id use_tpu_fourier_optimizations v_groups vocab_size z_steps
pooler_hidden_size scale_decoder_outputs is_gated_act true_hidden_size encoder_sparse_step decoder_sparse_step
""")
"""Fields of encoders and encoder-decoders, of all models, and of published configurations of former times."""

CONFIG: Mapping[str, Rule] = {
    **dict.fromkeys(_NUMBERS_AND_TEXTS, "data"),
    **dict.fromkeys(
        (
            *("activation", "activation_function", "dense_act_fn", "ff_activation"),
            *("hidden_act", "hidden_activation", "pooler_hidden_act", "summary_activation"),
        ),
        _ACTIVATIONS,
    ),
    **dict.fromkeys(("dtype", "torch_dtype", "router_dtype"), _DTYPES),
    "architectures": "names",
    "attn_implementation": "attention",
    "_attn_implementation": "attention",
    "auto_map": "code",
    "classifier_activation": (*_ACTIVATIONS, False, True),
    "custom_pipelines": "code",
    "experts_implementation": (None, "eager"),
    "id2label": "labels by number",
    "label2id": "labels",
    "model_type": "text",
    "name_or_path": "text",
    "_name_or_path": "text",
    "_commit_hash": "text",
    "pruned_heads": "object",
    "reference_compile": (None, False),
    "rope_parameters": "object",
    "rope_scaling": "object",
    "task_specific_params": "object",
    "tokenizer_class": "tokenizer",
}
"""`config.json` of a text encoder or an encoder-decoder, and `backbone_config` in that of a family."""

FAMILY_CONFIG: Mapping[str, Rule] = {
    **CONFIG,
    "backbone_config": "object",
    "hf_localattn_version": "text",
}
"""`config.json` of a family, besides the family's fields, which are "data"."""

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
    **dict.fromkeys(
        _names("""
        add_bos_token add_eos_token add_prefix_space backend clean_text clean_up_tokenization_spaces
        do_basic_tokenize do_lower_case do_subword_tokenize errors extra_ids handle_chinese_chars is_local
        keep_accents legacy legacy_behaviour local_files_only lowercase mask_token_sent max_length
        model_input_names name_or_path never_split offset only_label_first_subword pad_to_multiple_of
        pad_token_type_id padding processor_class remove_space special_tokens_map_file split_by_punct
        split_special_tokens src_lang stride strip_accents task tgt_lang tokenize_chinese_chars
        transformers_version trim_offsets truncation truncation_strategy unk_id use_fast verbose
        vocab_type wordpieces_prefix
        """),
        "data",
    ),
    "added_tokens_decoder": "tokens by number",
    "additional_special_tokens": "tokens",
    "auto_map": "code",
    "chat_template": "template",
    "max_len": "limit",
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

GENERATION: Mapping[str, Rule] = {
    **dict.fromkeys(
        _names("""
        _from_model_config assistant_confidence_threshold assistant_early_exit assistant_lookbehind bad_words_ids
        begin_suppress_tokens bos_token_id decoder_start_token_id diversity_penalty do_sample early_stopping
        encoder_no_repeat_ngram_size encoder_repetition_penalty eos_token_id epsilon_cutoff eta_cutoff
        exponential_decay_length_penalty forced_bos_token_id forced_eos_token_id guidance_scale is_assistant
        length_penalty low_memory max_length max_matching_ngram_size max_new_tokens max_time min_length
        min_new_tokens min_p no_repeat_ngram_size num_assistant_tokens num_assistant_tokens_schedule num_beams
        num_return_sequences output_attentions output_hidden_states output_logits output_scores pad_token_id
        prefill_chunk_size remove_invalid_values renormalize_logits repetition_penalty return_dict_in_generate
        sequence_bias stop_strings suppress_tokens target_lookbehind temperature token_healing top_h top_k top_p
        transformers_version typical_p use_cache disable_compile
        """),
        "data",
    ),
    "cache_implementation": (None, "dynamic"),
    "num_beam_groups": (None, 1),
}
"""`generation_config.json`. Ways to generate whose code is on the Hub are refused."""

WEIGHT_INDEX: Mapping[str, Rule] = {"metadata": "object", "weight_map": "weights"}
"""`model.safetensors.index.json`."""

EXPORT: Mapping[str, Rule] = {
    **dict.fromkeys(("mask_token", "problem_type", "question_is_first", "task"), "data"),
    **dict.fromkeys(("has_segments", "no_answer_tokens"), "data"),
    "labels": "data",
    "max_length": "length",
    "model_type": "text",
    "padding": "object",
    "trust_remote_code": (False, True),
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

TOLD = ("training_record.json", "all_results.json", "trainer_state.json")
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
