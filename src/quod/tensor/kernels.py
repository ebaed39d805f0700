"""The kernels of tensors by name, as `quod kernel list` shows them."""

import quod.tensor.elementwise.activation_kernels
import quod.tensor.embeddings.kernels
import quod.tensor.embeddings.rotary_kernel
import quod.tensor.flash_attention.backward.kernels
import quod.tensor.flash_attention.decode.kernel
import quod.tensor.flash_attention.kernel
import quod.tensor.flash_attention.pages_kernel
import quod.tensor.flash_attention.partial_results
import quod.tensor.float8_kernels
import quod.tensor.matmul.float8_kernel
import quod.tensor.matmul.int8_kernel
import quod.tensor.matmul.kernel
import quod.tensor.permute.transpose_kernels
import quod.tensor.quantised.registrations
import quod.tensor.reductions.kernels
import quod.tensor.rows.backward_kernels
import quod.tensor.rows.column_kernels
import quod.tensor.rows.cross_entropy_kernels
import quod.tensor.rows.kernels
import quod.tensor.training.adamw_kernel
import quod.tensor.training.clipping_kernels  # noqa: F401
