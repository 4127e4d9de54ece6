# The reference instance server with its engines. The context is scaler/instance; tetris-python is a stage of agent.Dockerfile:
#     docker build -f deploy/images/instance.Dockerfile -t tetris-instance scaler/instance
#     --build-arg EXTRAS=onnxruntime,text        without PyTorch: ONNX graphs, and the encoders that the README lists
ARG BASE=tetris-python
FROM ${BASE}
ARG EXTRAS=torch,onnxruntime,text
COPY pyproject.toml README.md /src/
COPY src /src/src
RUN pip install --no-cache-dir "/src[${EXTRAS}]" && rm -r /src
USER 65532:65532
ENTRYPOINT ["tetris-instance"]
