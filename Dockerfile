# bayes-asr in a container, without and with CUDA:
#   docker build --tag bayes-asr .
#   docker build --target cuda --tag bayes-asr:cuda .
#   docker run --rm --gpus all --volume "$PWD:/work" --user "$(id -u):$(id -g)" bayes-asr:cuda train ...
ARG PYTHON=3.11.14-slim-bookworm
ARG EXTRAS=audio,decode,export,report

FROM python:${PYTHON} AS wheel
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# Debian holds one version of a compiler.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:${PYTHON} AS base
WORKDIR /wheels
COPY --from=wheel /wheels /source/constraints.txt ./
# Any --user may keep caches there, as Triton does.
RUN useradd --create-home --uid 1000 user && chmod 1777 /home/user
ENV HOME=/home/user PYTHONUNBUFFERED=1

# PyPI's torch for Linux brings CUDA and Triton; the host's driver comes in by --gpus.
FROM base AS cuda
ARG EXTRAS
# Triton compiles a little C for each machine.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/* \
    && pip install --no-cache-dir --constraint constraints.txt "$(ls ./*.whl)[${EXTRAS}]"
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 1000
WORKDIR /work
ENTRYPOINT ["bayes-asr"]
CMD ["--help"]

FROM base AS cpu
ARG EXTRAS
RUN pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu \
        "$(grep '^torch==' constraints.txt)" \
    && pip install --no-cache-dir --constraint constraints.txt "$(ls ./*.whl)[${EXTRAS}]"
USER 1000
WORKDIR /work
ENTRYPOINT ["bayes-asr"]
CMD ["--help"]
