# "shared" of b is the backbone.
cd "$PAGE"
tetris similarity a.safetensors b.safetensors | grep -q '80'
