"""Doctests of modules whose optional dependency is not installed are not collected."""

import importlib.util

collect_ignore_glob = []
if importlib.util.find_spec("torch") is None:
    collect_ignore_glob += ["src/bandfall/neural/*", "src/bandfall/_estimators/neural.py"]
    collect_ignore_glob += ["src/bandfall/_products/torch_*.py", "src/bandfall/_products/fused.py"]
if importlib.util.find_spec("triton") is None:
    collect_ignore_glob += ["src/bandfall/_products/triton_kernels.py"]
