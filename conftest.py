"""Doctests of modules whose optional dependency is not installed are not collected."""

import importlib.util

collect_ignore_glob = []
if importlib.util.find_spec("torch") is None:
    collect_ignore_glob += ["src/bandfall/neural/*", "src/bandfall/estimators/_neural.py"]
    collect_ignore_glob += ["src/bandfall/backends/torch_*.py", "src/bandfall/backends/fused.py"]
if importlib.util.find_spec("triton") is None:
    collect_ignore_glob += ["src/bandfall/backends/triton_kernels.py"]
