# The daemon of every node, from source. The context is the repository:
#     docker build -f deploy/images/node.Dockerfile -t tetris-node .
FROM rust:1.95-slim-trixie AS build
WORKDIR /src
COPY . .
RUN RUSTFLAGS="-C target-feature=+crt-static -C strip=debuginfo" cargo build --locked --release \
        --target "$(rustc -vV | sed -n 's/host: //p')" --package tetris-reclaimer --bin tetris-reclaimer \
    && cp target/*/release/tetris-reclaimer /tetris-reclaimer

FROM scratch
COPY --from=build /tetris-reclaimer /usr/local/bin/tetris-reclaimer
# It mounts, and frees what belongs to root.
USER 0:0
ENTRYPOINT ["/usr/local/bin/tetris-reclaimer"]
