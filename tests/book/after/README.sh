# Each process that was started holds the model: there is one copy, whatever their number.
started=$(jobs -pr | wc -l)
[ "$started" -ge 2 ]
for _ in $(seq 240); do
    holders=$(tetris ls --format json | python3 -c 'import json, sys; print(min(model["holders"] for model in json.load(sys.stdin)["manifests"]))')
    [ "$holders" -lt "$started" ] || break
    sleep 0.5
done
echo "$holders holders of $started processes"
[ "$holders" -eq "$started" ]
held=$(tetris ls --objects --format json | python3 -c 'import json, sys; print(sum(entry["holders"] > 0 for entry in json.load(sys.stdin)["objects"]))')
[ "$held" -eq 1 ]
