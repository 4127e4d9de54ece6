//! The committed seeds of the target `gateway_config`, and files that take much memory for their length.

const WHOLE: &str = r#"
[limits]
body = "1MiB"

[timeouts]
head = "1s"

[cluster]
queue = 7

[function.embed]
slo = "200ms"
models = ["minilm"]
hosts = ["embed.example"]

[[function.embed.instance]]
address = "127.0.0.1:8001"
batch = 4
concurrency = 2
latency = "80ms"

[gpu_pool.main]
executors = ["127.0.0.1:8002", "[::1]:8003"]

[gpu_pool.main.policy]
name = "sharing"
urgent_percent = 20

[gpu_pool.main.function.chat]
slo = "80ms"
latency = "26ms"
after_load = 3
"#;

const ENGINES: &str = r#"
[engine_group.gpu]
memory = "80GiB"
idle = "10m"

[engine_group.gpu.engine.qwen]
address = "127.0.0.1:8001"
models = ["qwen"]
memory = "30GiB"

[engine_group.gpu.engine.llama]
address = "127.0.0.1:8002"
models = ["llama"]
memory = "70GiB"
"#;

/// Name and content of every seed.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let changed = |from: &str, to: &str| {
        assert!(WHOLE.contains(from), "{from}");
        WHOLE.replacen(from, to, 1)
    };
    let mut seeds: Vec<_> = [
        ("valid-whole", WHOLE.to_owned()),
        ("valid-nothing", String::new()),
        ("valid-engines", ENGINES.to_owned()),
        (
            "hostile-engines-memory",
            ENGINES.replace("\"30GiB\"", "\"281474976710656GiB\""),
        ),
        (
            "hostile-engines-model",
            ENGINES.replace("\"llama\"]", "\"qwen\\u0000\", \"qwen\"]"),
        ),
        ("hostile-unknown-field", changed("queue", "queues")),
        (
            "hostile-name",
            changed("function.embed]", "function.\"\\u001b[2J\"]"),
        ),
        (
            "hostile-long-name",
            changed(
                "function.embed]",
                &format!("function.\"{}\"]", "/".repeat(20_000)),
            ),
        ),
        (
            "hostile-long-line",
            format!("a = {}", "\"x\", ".repeat(5_000)),
        ),
        ("hostile-control", "a = \u{7f}\u{1b}".to_owned()),
        ("hostile-zero", changed("batch = 4", "batch = 0")),
        ("hostile-address", changed("127.0.0.1:8001", "localhost")),
        (
            "hostile-address-twice",
            changed("[::1]:8003", "127.0.0.1:8002"),
        ),
        ("hostile-duration", changed("80ms", "99999999999999999999d")),
        ("hostile-size", changed("1MiB", "99999999999TiB")),
        ("hostile-policy", changed("\"sharing\"", "\"best\"")),
        ("hostile-nested", format!("a = {}", "[".repeat(2_000))),
        (
            "hostile-tables",
            format!("{} = 1", vec!["a"; 2_000].join(".")),
        ),
    ]
    .map(|(name, text)| (name, text.into_bytes()))
    .into();
    seeds.push(("hostile-not-utf8", b"\xff".to_vec()));
    seeds
}

/// Files of many short entries, some longer than a file may be.
pub fn heavy() -> Vec<(&'static str, Vec<u8>)> {
    let keys = |number: usize| lines(number, |at| format!("x{at:x}=1"));
    let address = |at: usize| format!("\"[::{at:x}]:1\"");
    let executors: Vec<_> = (0..20_000).map(address).collect();
    [
        ("keys", keys(25_000)),
        ("numbers", format!("a=[{}]", "1,".repeat(100_000))),
        ("lists", format!("a=[{}]", "[],".repeat(80_000))),
        ("tables", lines(15_000, |at| format!("[a.x{at:x}]"))),
        (
            "dotted keys",
            lines(2_000, |at| format!("x{at:x}{}=1", ".a".repeat(60))),
        ),
        ("comments", "#\n".repeat(130_000)),
        (
            "executors",
            format!("[gpu_pool.a]\nexecutors=[{}]", executors.join(",")),
        ),
        ("too long", keys(50_000)),
    ]
    .map(|(name, text)| (name, text.into_bytes()))
    .into()
}

fn lines(number: usize, line: impl Fn(usize) -> String) -> String {
    let lines: Vec<_> = (0..number).map(line).collect();
    lines.join("\n")
}
