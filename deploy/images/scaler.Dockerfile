# The scaler, from source. The context is the repository:
#     docker build -f deploy/images/scaler.Dockerfile -t tetris-scaler .
# The image is that of deploy/images/base-images; deploy/images/build gives it with its digest.
ARG RUST_IMAGE=docker.io/library/rust:1.95-slim-trixie
FROM ${RUST_IMAGE} AS build
WORKDIR /src
COPY . .
RUN RUSTFLAGS="-C target-feature=+crt-static" cargo build --locked --profile image \
        --target "$(rustc -vV | sed -n 's/host: //p')" --package tetris-scaler --bin tetris-scaler \
    && cp target/*/image/tetris-scaler /tetris-scaler

FROM scratch
COPY --from=build /tetris-scaler /usr/local/bin/tetris-scaler
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/tetris-scaler"]
