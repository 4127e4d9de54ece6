# An image of one dynamically linked binary with its libraries, made without a network. deploy/images/build makes it; by hand, with
# the binary in FOLDER and what `deploy/images/libraries BINARY FOLDER/root` found:
#     docker build -f deploy/images/prebuilt-dynamic.Dockerfile --build-arg BINARY=tetris-node --build-arg USER=0:0 -t tetris-node-gpu FOLDER
FROM scratch
ARG BINARY
ARG USER=65532:65532
COPY root/ /
COPY ${BINARY} /usr/local/bin/
ENV PATH=/usr/local/bin
# Where NVIDIA's runtime mounts the driver's libraries, on Debian and elsewhere. The linker of another system does not look there.
ENV LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu:/usr/lib/aarch64-linux-gnu:/usr/lib64
USER ${USER}
