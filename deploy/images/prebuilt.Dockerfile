# An image of one statically linked binary, made without a network. deploy/images/build builds binaries and images; by hand, with
# the binary in FOLDER, and its bill of materials in FOLDER/root/usr/share/sbom:
#     docker build -f deploy/images/prebuilt.Dockerfile --build-arg BINARY=tetris-node --build-arg USER=0:0 -t tetris-node FOLDER
# deploy/images/build appends the entry point, which cannot have an argument in it. Without it the command is
#     docker run tetris-agent tetris --version
FROM scratch
ARG BINARY
ARG USER=65532:65532
# The bill of materials.
COPY root/ /
COPY ${BINARY} /usr/local/bin/
ENV PATH=/usr/local/bin
USER ${USER}
