import os

# Before numpy: threads of BLAS and torch only wait for each other over tensors of three numbers.
for _library in ("OMP", "OPENBLAS"):
    os.environ[f"{_library}_NUM_THREADS"] = "1"
