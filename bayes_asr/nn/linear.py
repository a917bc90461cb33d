"""Products of many frames: on a CPU compiled for this machine, by oneDNN, or as torch has them.

torch takes MKL for them in single precision, which needs twice as long on processors that it does
not know, and oneDNN in bfloat16, which compiles code for each new number of frames.
"""

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable

from bayes_asr.nn.kernels.cpu import library

LARGE = {torch.float32: 2**24, torch.bfloat16: 2**20}  # multiplications: fewer gain nothing
# Whether a network is being written down for other programs. torch 2.6 does not tell that from
# compiling: there what is compiled runs the reference too.
is_exporting = getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)
HAS_ONEDNN = hasattr(torch.ops.mkldnn, "_linear_pointwise")
PRODUCTS = {  # the paths that have the instructions for them
    torch.float32: ("avx2", "avx512", "avx512_bf16", "amx_bf16"),
    torch.bfloat16: ("avx512_bf16", "amx_bf16"),
}


class Linear(nn.Linear):
    """`torch.nn.Linear` for features [N, inputs] of many frames.

    batch_invariant: multiply any number of frames by compiled code, without a gradient. It adds up
    in one order, torch in one that depends on the number of frames.
    """

    batch_invariant = False

    def forward(self, x_NF: Tensor) -> Tensor:
        """Return x W^T + b [N, outputs]."""
        if self._is_compiled(x_NF):
            if self.batch_invariant:
                return multiply(library.path(), x_NF, self.weight.T, self.bias, torch.float32)
            if self._gains(x_NF):
                return _Product.apply(x_NF.to(factor_type("cpu")), self.weight, self.bias)
        return super().forward(x_NF)

    def _is_compiled(self, x_NF: Tensor) -> bool:
        return (
            not is_exporting()
            and x_NF.device.type == "cpu"
            and x_NF.dim() == 2
            and self.weight.dtype == torch.float32
        )

    def _gains(self, x_NF: Tensor) -> bool:
        # Under autocast torch's product returns bfloat16 too, and without it float32: the type
        # of the outputs must not depend on who computes them.
        dtype = factor_type("cpu")
        by_autocast = torch.is_autocast_enabled("cpu")
        return (
            by_autocast == (dtype == torch.bfloat16)
            and x_NF.dtype in (dtype, torch.float32)
            and is_faster(x_NF.numel() * self.out_features, dtype)
        )


def factor_type(device: str) -> torch.dtype:
    """Return the type of factors: bfloat16 where autocast asks for it, or float32."""
    reduced = torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device)
    return torch.bfloat16 if reduced == torch.bfloat16 else torch.float32


class _Product(torch.autograd.Function):
    """`apply(x_NF, W_XF, b_X)` -> x W^T + b [N, X] of the type of x."""

    @staticmethod
    def forward(ctx: FunctionCtx, x_NF: Tensor, W_XF: Tensor, b_X: Tensor | None) -> Tensor:
        ctx.save_for_backward(x_NF, W_XF)
        return product(x_NF, W_XF.T, b_X)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad_NX: Tensor) -> tuple[Tensor | None, ...]:
        x, W = ctx.saved_tensors  # type: ignore[attr-defined]
        # y = x W^T + b: dx = dy W, dW = dy^T x, db is the sum of dy over frames.
        grad = grad_NX.contiguous()
        by_x, by_W, by_b = ctx.needs_input_grad  # type: ignore[attr-defined]
        return (
            product(grad, W) if by_x else None,
            product(grad.T, x, dtype=W.dtype) if by_W else None,
            grad.sum(0, dtype=W.dtype) if by_b else None,
        )


def multiply_directions(h_NDH: Tensor, weights_SHX: Tensor) -> Tensor:
    """Products [N, D, X] of each direction with its matrix, or of all with one."""
    if len(weights_SHX) == 1:
        return h_NDH @ weights_SHX[0]
    if is_exporting():  # matrices can be quantised, batches of them cannot
        return torch.stack([h_NDH[:, d] @ weights_SHX[d] for d in range(len(weights_SHX))], 1)
    return torch.bmm(h_NDH.transpose(0, 1), weights_SHX).transpose(0, 1)


def product(
    a_NK: Tensor, b_KM: Tensor, bias_M: Tensor | None = None, dtype: torch.dtype | None = None
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
    return multiplications >= LARGE.get(dtype, 0) and (
        has_product(dtype) or (HAS_ONEDNN and dtype == torch.float32)
    )


def has_product(dtype: torch.dtype) -> bool:
    """Return whether the path to run has products as fast as those of BLAS libraries."""
    return library.path() in PRODUCTS.get(dtype, ())


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
