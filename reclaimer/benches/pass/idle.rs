//! The idle daemon of one machine.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::usage::{cpu_seconds, memory_mb};

/// Between two passes of the idle daemon; the default.
pub const INTERVAL_SECS: u64 = 60;

/// The daemon as it is shipped, with its server and its scrub.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Watches it over this time, with and without scrub.
pub fn idle(root: &Path, secs: u64) -> Result<Vec<Value>> {
    let mut idle = Vec::new();
    for (what, scrub) in [("without scrub", false), ("with scrub at 4 MiB/s", true)] {
        let config = root.join("../idle.toml");
        let listen = free_address()?;
        let text = format!(
            "listen = \"{listen}\"\ninterval_secs = {INTERVAL_SECS}\n[scrub]\nenabled = {scrub}\n[[stores]]\nname = \"bench\"\npath = \"{}\"\n",
            root.display()
        );
        std::fs::write(&config, text)?;
        let daemon = Command::new(env!("CARGO_BIN_EXE_tetris-node"))
            .args(["run", "--config"])
            .arg(&config)
            .stderr(Stdio::null())
            .spawn()?;
        let mut daemon = Daemon(daemon);
        // The first pass is no idle time.
        std::thread::sleep(Duration::from_secs(5));
        let pid = daemon.0.id();
        let before = cpu_seconds(pid)?;
        std::thread::sleep(Duration::from_secs(secs));
        let percent = (cpu_seconds(pid)? - before) / secs as f64 * 100.0;
        let resident = memory_mb(pid, "VmRSS:")?;
        let answers = poll(listen)?;
        // Pages are dropped after the next pass.
        std::thread::sleep(Duration::from_secs(INTERVAL_SECS + 5));
        let (now, peak) = (memory_mb(pid, "VmRSS:")?, memory_mb(pid, "VmHWM:")?);
        ensure!(daemon.0.try_wait()?.is_none(), "the daemon has ended");
        println!(
            "idle daemon over {secs} s, {what:<24} {percent:>6.3} % of a core, {resident:.1} MB resident, {now:.1} MB after a poll, {peak:.1} MB at most"
        );
        idle.push(json!({
            "name": what,
            "core_percent": percent,
            "resident_mb": resident,
            "resident_after_poll_mb": now,
            "peak_mb": peak,
            "answers": answers,
        }));
    }
    Ok(idle)
}

fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Asks for the largest page, as the scaler does: made the first time, and kept the second.
fn poll(address: SocketAddr) -> Result<Vec<Value>> {
    let mut answers = Vec::new();
    for what in ["made", "kept"] {
        let begin = Instant::now();
        let mut stream = TcpStream::connect(address)?;
        write!(
            stream,
            "GET /inventory/objects HTTP/1.1\r\nHost: bench\r\nAccept-Encoding: gzip\r\n\r\n"
        )?;
        let bytes = std::io::copy(&mut stream, &mut std::io::sink())? as f64 / 1e6;
        let ms = begin.elapsed().as_secs_f64() * 1e3;
        println!("/inventory/objects, {what:<32} {ms:>7.1} ms, {bytes:.1} MB");
        answers.push(json!({"name": what, "ms": ms, "mb": bytes}));
    }
    Ok(answers)
}
