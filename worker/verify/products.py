"""Matrix products that a burn-in workload verifies: their interface and their multiplication."""

from typing import Final, Protocol

import torch

from protocol.cell import Cell
from worker import devices

NO_TF32: Final = {"tf32": "a CPU multiplies in fp32"}
_CUDA_BYTES: Final = 16 << 30
_CPU_BYTES: Final = 64 << 20
_MOST_OUTPUTS: Final = 256


class Products(Protocol):
    """Products of square matrices, each verified by one number, its verdict.

    A verdict is a digest of the output, or a number of errors in it. pairs: number of pairs of operands; `pair` is an
    index from 0. side: rows of a matrix. what, method: names of the products and of their verification. digests: for
    each pair, the digest that every output must have, in hexadecimal; () if the verification uses none. not_tested:
    check that is omitted → reason. odd: (pair, wrong verdict, output) of outputs that were wrong in preparation.
    """

    pairs: int
    side: int
    what: str
    method: str
    digests: tuple[str, ...]
    not_tested: dict[str, str]
    odd: tuple[tuple[int, int, torch.Tensor], ...]

    def empty(self) -> torch.Tensor:
        """Return an uninitialised tensor for one output."""

    def make(self, pair: int, output: torch.Tensor) -> None:
        """Multiply the operands of `pair` into `output`. Does not wait for the device."""

    def judge(self, number: int, pair: int, output: torch.Tensor, verdicts: torch.Tensor, slot: int) -> None:
        """Add the verdict of `output`, a product of `pair`, to verdicts[slot], an int64 that was zero.

        number: index of the product in its launch, from 0. Does not wait for a GPU.
        """

    def verdict(self, pair: int) -> int:
        """Return the verdict of a right output of `pair`: its signed 64-bit digest, or 0 errors. Any other is wrong."""

    def expected(self, pair: int) -> torch.Tensor:
        """Return the right output of `pair`. The class says if it is exact or computed by the same library call."""

    def operands(self, pair: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the two operands of `pair`, left and right."""

    def allowed(self, exact: float, magnitude: float) -> float:
        """Return the largest rounding error of an output's element.

        exact: exact value of the element, a sum of products. magnitude: sum of the absolute values of these products.
        """

    def tensors(self) -> tuple[torch.Tensor, ...]:
        """Return all tensors that the products keep on the device except outputs, to count their memory."""


def side_of(cell: Cell) -> int:
    """Return the number of rows of the cell's matrices, its input size. Raises ValueError if it has none."""
    if cell.input_size is None:
        raise ValueError(f"{cell.id}: a cell of {cell.workload} needs an input size, the side of its matrices")
    return cell.input_size


def flops(side: int) -> float:
    """Return the operations of one product of square matrices: a multiplication and an addition for each term."""
    return 2.0 * side**3


def add_in_fp32() -> None:
    """Have cuBLAS add up products of two-byte types in fp32. By default it may add partial sums in two bytes."""
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False


def can_store_fp32(device: torch.device) -> bool:
    """Whether operands in two-byte types can have a product in fp32: on CUDA, from torch 2.8 on."""
    return device.type == "cuda" and hasattr(torch.ops.aten.mm, "dtype_out")


def multiply(left: torch.Tensor, right: torch.Tensor, output: torch.Tensor) -> None:
    """Write the product left·right into `output`.

    output: of the operands' type. With operands in two-byte types, also fp32 if can_store_fp32 of the device is True.
    """
    if output.dtype is left.dtype:
        torch.mm(left, right, out=output)
    else:
        torch.mm(left, right, output.dtype, out=output)


def outputs_for(output_bytes: int, device: torch.device) -> int:
    """Return the number of outputs of `output_bytes` to keep, from 2 to 256.

    As many as fit in 64 MiB on a CPU device, or on a GPU in 16 GiB or half of its free memory, whichever is less.
    """
    room = _CPU_BYTES
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        room = min(_CUDA_BYTES, free // 2)
    return max(2, min(room // output_bytes, _MOST_OUTPUTS))


def operand_type(cell: Cell) -> torch.dtype:
    """Return the type of the operands in the cell's precision."""
    return devices.weights_type(cell.precision, training=False)
