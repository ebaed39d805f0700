"""The kernels of tensors by name, as `quod kernel list` shows them."""

from quod.tensor import activation_kernels as activation_kernels
from quod.tensor import adamw_kernel as adamw_kernel
from quod.tensor import attention_backward_kernels as attention_backward_kernels
from quod.tensor import attention_decode_kernel as attention_decode_kernel
from quod.tensor import attention_kernel as attention_kernel
from quod.tensor import attention_pages_kernel as attention_pages_kernel
from quod.tensor import attention_parts_kernel as attention_parts_kernel
from quod.tensor import column_kernels as column_kernels
from quod.tensor import embedding_kernels as embedding_kernels
from quod.tensor import float8_kernels as float8_kernels
from quod.tensor import gemm_float8_kernel as gemm_float8_kernel
from quod.tensor import gemm_int8_kernel as gemm_int8_kernel
from quod.tensor import gemm_kernel as gemm_kernel
from quod.tensor import gradient_kernels as gradient_kernels
from quod.tensor import loss_kernels as loss_kernels
from quod.tensor import reduction_kernels as reduction_kernels
from quod.tensor import rotary_kernel as rotary_kernel
from quod.tensor import row_backward_kernels as row_backward_kernels
from quod.tensor import row_kernels as row_kernels
from quod.tensor import transpose_kernels as transpose_kernels
from quod.tensor.quantised import registered as registered
