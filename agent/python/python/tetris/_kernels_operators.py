"""Operators that a trace of kernels may call: those of inference, by name.

The list has the operators that transformers' and diffusers' encoders, decoders, vision, speech and diffusion models
call, and others of their kinds that were reviewed. Everything else that PyTorch registers, such as operators that take
packed weights, storages or files, make assertions or resize memory of others, is not called. Pure: no torch.
"""

from __future__ import annotations

#: Names in the namespace ``aten``, each of which stands for its overloads.
_LIST = """
__and__ __lshift__ __or__ __rshift__ __xor__ _adaptive_avg_pool2d _adaptive_avg_pool3d _addmm_activation
_batch_norm_with_update _cdist_forward _conj _conj_physical _convolution _cudnn_rnn _efficient_attention_forward
_embedding_bag _euclidean_dist _fft_c2c _fft_c2r _fft_r2c _flash_attention_forward _fused_rms_norm _fused_sdp_choice
_grouped_mm _int_mm _is_all_true _linalg_det _linalg_eigh _linalg_slogdet _linalg_solve_ex _linalg_svd
_local_scalar_dense _log_softmax _native_batch_norm_legit _native_batch_norm_legit_no_training
_native_multi_head_attention _prelu_kernel _safe_softmax _scaled_dot_product_attention_math
_scaled_dot_product_cudnn_attention _scaled_dot_product_efficient_attention _scaled_dot_product_flash_attention
_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_fused_attention_overrideable _scaled_mm _softmax
_thnn_fused_gru_cell _thnn_fused_lstm_cell _to_copy _transformer_encoder_layer_fwd _trilinear _unique2 _unsafe_view
_upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_nearest_exact2d _weight_norm _weight_norm_interface abs
absolute acos acosh adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d
adaptive_max_pool2d adaptive_max_pool3d add addbmm addcdiv addcmul addmm addmv addr affine_grid_generator alias all
allclose alpha_dropout amax aminmax angle any arange argmax argmin argsort argwhere as_strided as_strided_scatter
asin asinh atan atan2 atanh avg_pool1d avg_pool2d avg_pool3d baddbmm bartlett_window batch_norm bernoulli bilinear
bincount bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor blackman_window bmm
broadcast_to bucketize cat cdist ceil celu channel_shuffle chunk clamp clamp_max clamp_min clip clone col2im
column_stack complex concat conj conj_physical constant_pad_nd contiguous conv1d conv2d conv3d conv_transpose1d
conv_transpose2d conv_transpose3d convolution copy copysign cos cosh cosine_similarity count_nonzero cross
cudnn_grid_sampler cummax cummin cumprod cumsum detach diag diag_embed diagflat diagonal diagonal_copy
diagonal_scatter diff div divide dot dropout dstack einsum elu embedding embedding_bag empty empty_like
empty_permuted empty_strided eq equal erf erfc erfinv exp exp2 expand expand_as expand_copy expm1 exponential eye
feature_dropout fft_fft fft_fft2 fft_fftn fft_fftshift fft_ifft fft_ifft2 fft_ifftn fft_ifftshift fft_irfft
fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftn fill flatten flip floor floor_divide fmax fmin fmod frac full
full_like gather ge gelu glu greater greater_equal grid_sampler grid_sampler_2d grid_sampler_3d group_norm gru
gru_cell gt hamming_window hann_window hardshrink hardsigmoid hardswish hardtanh histc hstack im2col imag index
index_add index_copy index_fill index_put index_select inner instance_norm inverse is_nonzero isclose isfinite isin
isinf isnan isneginf isposinf istft item kaiser_window kron kthvalue layer_norm le leaky_relu lerp less less_equal
lift_fresh linalg_cholesky linalg_cholesky_ex linalg_cross linalg_det linalg_eigh linalg_inv linalg_inv_ex
linalg_lu_factor linalg_lu_factor_ex linalg_matrix_norm linalg_norm linalg_qr linalg_slogdet linalg_solve
linalg_solve_ex linalg_solve_triangular linalg_svd linalg_vecdot linalg_vector_norm linear linspace log log10 log1p
log2 log_sigmoid log_sigmoid_forward log_softmax logaddexp logaddexp2 logcumsumexp logical_and logical_not
logical_or logical_xor logit logspace logsumexp lstm lstm_cell lt masked_fill masked_scatter masked_select matmul
max max_pool1d max_pool2d max_pool2d_with_indices max_pool3d max_pool3d_with_indices maximum mean median meshgrid
min minimum mish mm mode moveaxis movedim msort mul multinomial multiply mv nan_to_num nanmean nanmedian nansum
narrow native_batch_norm native_dropout native_group_norm native_layer_norm ne neg negative new_empty
new_empty_strided new_full new_ones new_zeros nonzero nonzero_numpy norm normal not_equal numel numpy_T one_hot ones
ones_like outer pad permute pixel_shuffle pixel_unshuffle polar pow prelu prod put quantile rand rand_like randint
randint_like randn randn_like randperm ravel real reciprocal reflection_pad1d reflection_pad2d reflection_pad3d relu
remainder repeat repeat_interleave replication_pad1d replication_pad2d replication_pad3d reshape reshape_as
resolve_conj resolve_neg rms_norm rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell roll round rsqrt rsub scalar_tensor
scaled_dot_product_attention scatter scatter_add scatter_reduce searchsorted select select_scatter selu sigmoid sign
silu sin sinc sinh slice slice_scatter softmax softplus softshrink sort special_erfinv special_expit special_expm1
special_log_softmax special_logit special_softmax split split_with_sizes split_with_sizes_copy sqrt square squeeze
squeeze_copy stack std std_mean stft sub subtract sum swapaxes swapdims t take take_along_dim tan tanh tensor_split
threshold tile to topk trace transpose tril tril_indices triu triu_indices true_divide trunc type_as unbind
unflatten unfold unfold_copy uniform unique_consecutive unique_dim unique_dim_consecutive unsafe_split unsqueeze
unsqueeze_copy upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d
upsample_nearest3d upsample_trilinear3d var var_mean vdot view view_as view_as_complex view_as_real vstack where
xlogy zero zeros zeros_like
"""
_NAMES = frozenset(_LIST.split())


def is_permitted(namespace: str, name: str) -> bool:
    """Return true if a trace may call an operator, or the one that works in place with the same name and ``_``."""
    if namespace != "aten":
        return False
    return name in _NAMES or (name.endswith("_") and not name.endswith("__") and name[:-1] in _NAMES)
