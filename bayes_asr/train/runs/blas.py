"""The libraries of linear algebra behind NumPy and SciPy, whose sums differ in their last bits."""

from threadpoolctl import threadpool_info


def name_blas() -> str:
    """Linear algebra that NumPy and SciPy have loaded, with its code for this processor."""
    loaded = (library for library in threadpool_info() if library["user_api"] == "blas")
    names = {f"{blas['internal_api']} {blas.get('architecture', '')}".strip() for blas in loaded}
    return ", ".join(sorted(names)) or "none"
