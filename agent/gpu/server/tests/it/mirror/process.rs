//! Another process: this test program again, with one test.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Sends a line to the process that started this one.
pub fn tell(what: &str) {
    println!("\npeer: {what}");
}

/// A process of a test. It is killed on drop.
pub struct Process {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Process {
    /// Runs the test `name` in another process, with `environment`.
    pub fn start(name: &str, environment: &[(&str, String)]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([
            "--exact",
            name,
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ]);
        let environment = environment.iter().map(|(name, value)| (*name, value));
        command.envs(environment).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Receives the next line that the process sends.
    pub fn hear(&mut self) -> String {
        let mut all = String::new();
        loop {
            let mut line = String::new();
            let read = self.output.read_line(&mut line).unwrap();
            assert!(read > 0, "the process ended: {all}");
            if let Some((_, said)) = line.split_once("peer: ") {
                return said.trim_end().to_owned();
            }
            all.push_str(&line);
        }
    }

    /// Lets the process continue: it waits on its standard input.
    pub fn go_on(&mut self) {
        use std::io::Write;
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    /// Waits for the orderly end of the process.
    pub fn ended(mut self) {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {rest}");
    }

    /// Kills the process (SIGKILL).
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended.
        let _killed = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Waits for [`Process::go_on`].
pub fn wait() {
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

pub fn variable(name: &str) -> String {
    std::env::var(name).unwrap()
}
