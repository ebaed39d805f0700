"""The kernels of tensors by name, as `quod kernel list` shows them."""

from quod.tensor import activation_kernels as activation_kernels
from quod.tensor import gemm_kernel as gemm_kernel
from quod.tensor import row_kernels as row_kernels
from quod.tensor.quantised import registered as registered
