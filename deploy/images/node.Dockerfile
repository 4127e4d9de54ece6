# The daemon of every node, from source. The context is the repository:
#     docker build -f deploy/images/node.Dockerfile -t tetris-node .
#     docker build -f deploy/images/node.Dockerfile --target gpu -t tetris-node-gpu .     # for the GPU mirror
# The images are those of deploy/images/base-images; deploy/images/build gives them with their digests.
ARG RUST_IMAGE=docker.io/library/rust:1.95-slim-trixie
ARG DEBIAN_IMAGE=docker.io/library/debian:trixie-slim
FROM ${RUST_IMAGE} AS build
WORKDIR /src
COPY . .
RUN RUSTFLAGS="-C target-feature=+crt-static" cargo build --locked --profile image \
        --target "$(rustc -vV | sed -n 's/host: //p')" --package tetris-node --bin tetris-node \
    && cp target/*/image/tetris-node /tetris-node

# A static program can load no driver. This one finds it where NVIDIA's runtime mounts it.
FROM build AS build-gpu
RUN cargo build --locked --profile image --target-dir /dynamic --package tetris-node --bin tetris-node

# For pods whose images do not have it.
FROM build AS python-package
RUN apt-get update && apt-get install --yes --no-install-recommends python3-venv \
    && rustup target add "$(uname -m)-unknown-linux-musl" \
    && deploy/images/python-package /python

FROM ${DEBIAN_IMAGE} AS gpu
COPY --from=python-package /python /usr/share/tetris/python
COPY --from=build-gpu /dynamic/image/tetris-node /usr/local/bin/tetris-node
USER 0:0
ENTRYPOINT ["/usr/local/bin/tetris-node"]

FROM scratch AS node
COPY --from=python-package /python /usr/share/tetris/python
COPY --from=build /tetris-node /usr/local/bin/tetris-node
# It mounts, and frees what belongs to root.
USER 0:0
ENTRYPOINT ["/usr/local/bin/tetris-node"]
