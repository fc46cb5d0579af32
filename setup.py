"""Builds the kernel of the trees; where that fails, the package goes without and runs in NumPy."""

import sys

from setuptools import Extension, setup

UNIX = ["-O3", "-std=c11", "-ffp-contract=off", "-fvisibility=hidden"]
FLAGS = ["/O2", "/std:c11"] if sys.platform == "win32" else UNIX

setup(
    ext_modules=[
        Extension(
            "epiloss._kernels._kernel",
            [f"src/epiloss/_kernels/{name}.c" for name in ("_kernel", "_trees", "_passes", "_boost")],
            depends=["src/epiloss/_kernels/_kernel.h"],
            extra_compile_args=FLAGS,
            optional=True,
        )
    ]
)
