tetris init /run/tetris/store
cat >node.toml <<'CONFIG'
listen = "127.0.0.1:9460"

[[stores]]
name = "default"
path = "/run/tetris/store"
CONFIG
