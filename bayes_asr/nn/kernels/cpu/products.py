"""Products of many frames on a CPU: compiled for this machine, by oneDNN, or as torch has them.

torch takes MKL for them in single precision, which needs twice as long on processors that it does
not know, and oneDNN in bfloat16, which compiles code for each new number of frames
(docs/performance.md).
"""

import torch
from torch import Tensor

from bayes_asr.nn.kernels.cpu import library

LARGE = 2**24  # multiplications: smaller products gain nothing
HAS_ONEDNN = hasattr(torch.ops.mkldnn, "_linear_pointwise")
HAS_AMX = getattr(torch.cpu, "_is_amx_tile_supported", bool)  # oneDNN is faster by it
PRODUCTS = {  # the paths that have the vectors for them
    torch.float32: ("avx2", "avx512", "avx512_bf16"),
    torch.bfloat16: ("avx512_bf16",),
}


def product(
    a_NK: Tensor,
    b_KM: Tensor,
    bias_M: Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Return a b + bias [N, M] of a type, without a gradient.

    dtype: by default that of a, in which factors are multiplied. b may be float32 where a is
    bfloat16.
    """
    dtype = dtype or a_NK.dtype
    if is_faster(a_NK.numel() * b_KM.shape[1], a_NK.dtype):
        if has_product(a_NK.dtype):
            return multiply(library.path(), a_NK, b_KM, bias_M, dtype)
        return multiply_onednn(a_NK, b_KM, bias_M).to(dtype)
    y = torch.mm(a_NK, b_KM.to(a_NK.dtype))
    return (y if bias_M is None else y + bias_M).to(dtype)


def multiply_onednn(a_NK: Tensor, b_KM: Tensor, bias_M: Tensor | None = None) -> Tensor:
    """Return a b + bias of float32, by the operator that torch.compile has for linear layers."""
    # It is 1,000 times slower on rows or columns with gaps between them.
    b = b_KM if b_KM.T.is_contiguous() else b_KM.contiguous()
    a = a_NK.contiguous()
    return torch.ops.mkldnn._linear_pointwise(a, b.T, bias_M, "none", [], "")


def is_faster(multiplications: int, dtype: torch.dtype) -> bool:
    """Whether there is a faster product than torch's, of that size, in factors of a type."""
    return multiplications >= LARGE and (
        has_product(dtype) or (HAS_ONEDNN and dtype == torch.float32)
    )


def has_product(dtype: torch.dtype) -> bool:
    """Return whether the path to run has products as fast as those of BLAS libraries."""
    return library.path() in PRODUCTS.get(dtype, ()) and not (dtype == torch.bfloat16 and HAS_AMX())


def multiply(
    path: str, a_NK: Tensor, b_KM: Tensor, bias_M: Tensor | None, dtype: torch.dtype
) -> Tensor:
    """Return a b + bias [N, M] of a type, by a path; factors are multiplied in the type of a."""
    (N, K), M = a_NK.shape, b_KM.shape[1]
    a = library.check_tensor("left side", a_NK, (N, K), *library.STORAGES)
    # Either rows or columns must be without gaps; of a right side in bfloat16, rows.
    a = a if 1 in a.stride() else a.contiguous()
    b = library.check_tensor("right side", b_KM, (K, M), torch.float32, a.dtype)
    by_columns = b.stride(0) == 1 and b.dtype == torch.float32
    b = b if by_columns or b.stride(1) == 1 else b.contiguous()
    bias = None if bias_M is None else library.require("bias", bias_M, (M,))
    result = torch.empty(N, M, dtype=dtype)
    product = library.Product(
        threads=torch.get_num_threads(),
        storage=library.STORAGES.index(a.dtype),
        rows=N,
        inner=K,
        columns=M,
        left=library.address(a),
        left_row=a.stride(0),
        left_column=a.stride(1),
        right=library.address(b),
        right_storage=library.STORAGES.index(b.dtype),
        right_row=b.stride(0),
        right_column=b.stride(1),
        bias=library.address(bias),
        result=library.address(result),
        result_storage=library.STORAGES.index(dtype),
    )
    library.run("multiply", path, product, f"a product of {N} x {K} and {K} x {M} numbers")
    return result
