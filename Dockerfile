# Two images of one service. Both build plans for GPUs ahead of time; `cpu` answers on the CPU, `gpu` on a GPU too.
#   docker build --target cpu --tag planforge:cpu .
#   docker build --target gpu --build-arg TENSORRT_INDEX=... --tag planforge:gpu .

FROM python:3.12-slim AS cpu
ENV PATH=/opt/planforge/bin:$PATH HOME=/var/lib/planforge PIP_NO_CACHE_DIR=1
ENV PLANFORGE_HOST=0.0.0.0 PLANFORGE_DATA_DIR=/var/lib/planforge
COPY . /src
RUN python3 -m venv /opt/planforge && pip install "/src[postgresql]"
RUN install --directory --owner=10001 --group=10001 /var/lib/planforge
USER 10001:10001
VOLUME /var/lib/planforge
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s \
    CMD python3 -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz')"
CMD ["planforge", "serve"]

FROM nvidia/cuda:13.0.1-base-ubuntu24.04 AS gpu
# The package index that holds TensorRT's libraries; NVIDIA's documentation names it.
ARG TENSORRT_INDEX
ENV PATH=/opt/planforge/bin:$PATH HOME=/var/lib/planforge PIP_NO_CACHE_DIR=1
ENV PLANFORGE_HOST=0.0.0.0 PLANFORGE_DATA_DIR=/var/lib/planforge
RUN apt-get update && apt-get install --yes --no-install-recommends python3-venv && rm -rf /var/lib/apt/lists/*
COPY . /src
RUN python3 -m venv /opt/planforge && pip install --extra-index-url "$TENSORRT_INDEX" "/src[tensorrt,postgresql]"
RUN install --directory --owner=10001 --group=10001 /var/lib/planforge
USER 10001:10001
VOLUME /var/lib/planforge
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s \
    CMD python3 -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz')"
CMD ["planforge", "serve"]
