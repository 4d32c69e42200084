"""The fields of a transformers CLIPModel's config: those that are read, with its defaults; those that must have one
value, for our towers know no other; and those of any model, on which a CLIP's vectors do not depend."""

from __future__ import annotations

from typing import Any

from equipoise.data.preprocess import OPENAI_MEAN, OPENAI_STD

EPSILON = 1e-5  # of LayerNorms
BICUBIC = 3  # as Pillow numbers them
STEPS = ("do_resize", "do_center_crop", "do_rescale", "do_normalize", "do_convert_rgb")

MODEL: dict[str, Any] = {
    "text_config": None,
    "text_config_dict": None,
    "vision_config": None,
    "vision_config_dict": None,
    "projection_dim": 512,
}
MODEL_ONLY: dict[str, tuple[Any, ...]] = {"model_type": ("clip",)}
TEXT: dict[str, Any] = {
    "vocab_size": 49408,
    "hidden_size": 512,
    "intermediate_size": 2048,
    "num_hidden_layers": 12,
    "num_attention_heads": 8,
    "max_position_embeddings": 77,
    "hidden_act": "quick_gelu",
    "eos_token_id": 49407,
}
TEXT_ONLY: dict[str, tuple[Any, ...]] = {"layer_norm_eps": (EPSILON,), "attention_dropout": (0,), "dropout": (0,)}
VISION: dict[str, Any] = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "image_size": None,
    "patch_size": None,
    "hidden_act": "quick_gelu",
}
VISION_ONLY: dict[str, tuple[Any, ...]] = {**TEXT_ONLY, "num_channels": (3,)}
IMAGES: dict[str, Any] = {
    "size": None,
    "crop_size": None,
    "image_mean": list(OPENAI_MEAN),
    "image_std": list(OPENAI_STD),
}
IMAGES_ONLY: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(STEPS, (True, None)),
    "resample": (BICUBIC,),
    "rescale_factor": (1 / 255, None),
    "do_pad": (False, None),
}
IMAGES_UNUSED = (
    "image_processor_type",
    "feature_extractor_type",
    "processor_class",
    "_valid_processor_keys",
    "data_format",
    "input_data_format",
    "device",
    "return_tensors",
    "disable_grouping",
    "default_to_square",
    "pad_size",
    "use_square_size",
)
UNUSED = (  # what `PretrainedConfig` has of its own
    "_attn_implementation_autoset",
    "_commit_hash",
    "_name_or_path",
    "add_cross_attention",
    "architectures",
    "attn_implementation",
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "chunk_size_feed_forward",
    "cross_attention_hidden_size",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dtype",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "eos_token_id",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "id2label",
    "initializer_factor",
    "initializer_range",
    "is_decoder",
    "is_encoder_decoder",
    "label2id",
    "length_penalty",
    "logit_scale_init_value",
    "max_length",
    "min_length",
    "model_type",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "pad_token_id",
    "prefix",
    "problem_type",
    "projection_dim",
    "pruned_heads",
    "remove_invalid_values",
    "repetition_penalty",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tie_encoder_decoder",
    "tie_word_embeddings",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers_version",
    "typical_p",
    "use_bfloat16",
)
