# The gateway, from source. The context is the repository:
#     docker build -f deploy/images/gateway.Dockerfile -t tetris-gateway .
# The image is that of deploy/images/base-images; deploy/images/build gives it with its digest.
ARG RUST_IMAGE=docker.io/library/rust:1.95-slim-trixie
FROM ${RUST_IMAGE} AS build
WORKDIR /src
COPY . .
RUN RUSTFLAGS="-C target-feature=+crt-static" cargo build --locked --profile gateway \
        --target "$(rustc -vV | sed -n 's/host: //p')" --package tetris-gateway --bin tetris-gateway \
    && cp target/*/gateway/tetris-gateway /tetris-gateway

FROM scratch
COPY --from=build /tetris-gateway /usr/local/bin/tetris-gateway
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/tetris-gateway"]
