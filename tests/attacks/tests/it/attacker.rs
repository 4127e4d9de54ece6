//! Programs of pods, and the lines that they print.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use tetris_attacks::line::Line;

use crate::node::{Node, Pod};

/// Prints a line of figures, which no test harness keeps back.
pub fn tell(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Longest wait for a round: the machine may be busy with other attacks.
const ROUND: Duration = Duration::from_mins(3);

/// Processor time of a program.
#[derive(Debug, Clone, Copy)]
pub enum Priority {
    Normal,
    /// Time that the rest of the machine leaves. A pod's limits bound what its own processes take from others: in the times
    /// of a victim remains what an attack makes our processes do.
    Idle,
}

impl Priority {
    fn command(self, program: &str) -> Command {
        match self {
            Self::Normal => Command::new(program),
            Self::Idle => {
                let mut command = Command::new("chrt");
                command.args(["--idle", "0", program]);
                command
            }
        }
    }
}

/// A program in a pod. Killed when dropped.
pub struct Program {
    name: String,
    child: Child,
    lines: Receiver<Line>,
}

impl Program {
    /// Starts `tetris-attack` with these arguments in a pod.
    pub fn start(pod: &Pod, name: &str, arguments: &[String]) -> Self {
        Self::run(name, Priority::Normal, &of_pod(pod, arguments))
    }

    fn run(name: &str, priority: Priority, arguments: &[String]) -> Self {
        let mut child = priority
            .command(env!("CARGO_BIN_EXE_tetris-attack"))
            .args(arguments)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (said, lines) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).unwrap_or_else(|error| {
                    let (attack, what) = ("?".to_owned(), format!("{line}: {error}"));
                    Line::Wrong { attack, what }
                });
                if said.send(line).is_err() {
                    return;
                }
            }
        });
        Self {
            name: name.to_owned(),
            child,
            lines,
        }
    }

    /// The next line; `None` when it has ended.
    ///
    /// # Panics
    /// When it is silent for very long, or reports that something is wrong.
    pub fn line(&mut self) -> Option<Line> {
        match self.lines.recv_timeout(ROUND) {
            Ok(Line::Wrong { attack, what }) => panic!("{attack}: {what}"),
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("{} says nothing", self.name),
        }
    }

    /// Lines that it has said by now.
    pub fn lines_so_far(&mut self) -> Vec<Line> {
        self.lines.try_iter().collect()
    }

    /// Asks it to end, and waits for that. Returns what it said that no one had read.
    pub fn stop(mut self) -> Vec<Line> {
        drop(self.child.stdin.take());
        let mut rest = Vec::new();
        while let Some(line) = self.line() {
            rest.push(line);
        }
        let ended = self.child.wait().unwrap();
        assert!(ended.success(), "{}: {ended}", self.name);
        rest
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Arguments with those for the directories and the user of a pod.
fn of_pod(pod: &Pod, arguments: &[String]) -> Vec<String> {
    let [volume, scratch] = [&pod.volume, &pod.scratch].map(|path| path.display().to_string());
    let user = pod.user.to_string();
    let of_pod = ["--store", &volume, "--scratch", &scratch, "--user", &user];
    [arguments, &of_pod.map(str::to_owned)].concat()
}

/// An attack in a pod.
pub struct Attacker {
    program: Program,
    rounds: u64,
    /// Counts of all rounds.
    pub counts: BTreeMap<String, u64>,
    pub skipped: Option<String>,
}

impl Attacker {
    /// Starts one.
    pub fn start(node: &Node, pod: &Pod, attack: &str, more: &[&str]) -> Self {
        Self::start_with(Priority::Normal, node, pod, attack, more)
    }

    /// Starts one with a priority.
    pub fn start_with(
        priority: Priority,
        node: &Node,
        pod: &Pod,
        attack: &str,
        more: &[&str],
    ) -> Self {
        let mut arguments = vec!["attack".to_owned(), attack.to_owned()];
        for port in node.ports() {
            arguments.extend(["--page".to_owned(), port.to_string()]);
        }
        arguments.extend(more.iter().map(|more| (*more).to_owned()));
        Self::of(Program::run(attack, priority, &of_pod(pod, &arguments)))
    }

    /// Starts an attack on a gateway.
    pub fn of_gateway(address: SocketAddr, attack: &str, priority: Priority) -> Self {
        let address = address.to_string();
        let arguments = ["gateway", attack, "--address", &address].map(str::to_owned);
        Self::of(Program::run(attack, priority, &arguments))
    }

    fn of(program: Program) -> Self {
        Self {
            program,
            rounds: 0,
            counts: BTreeMap::new(),
            skipped: None,
        }
    }

    /// Waits until so many rounds more are over. Returns false if the attack cannot be made here, which is said.
    pub fn rounds(&mut self, rounds: u64) -> bool {
        let until = self.rounds + rounds;
        while self.rounds < until && self.skipped.is_none() {
            match self.program.line() {
                Some(line) => self.note(line),
                None => panic!("{} ended", self.program.name),
            }
        }
        if let Some(reason) = &self.skipped {
            let name = &self.program.name;
            let _ = writeln!(std::io::stderr(), "SKIPPED: {name}: {reason}");
        }
        self.skipped.is_none()
    }

    /// Notes what it has said by now. Returns the number of its rounds.
    ///
    /// # Panics
    /// When something is wrong.
    pub fn look(&mut self) -> u64 {
        for line in self.program.lines_so_far() {
            self.note(line);
        }
        self.rounds
    }

    fn note(&mut self, line: Line) {
        match line {
            Line::Round { counts, .. } => {
                self.rounds += 1;
                for (name, number) in counts {
                    *self.counts.entry(name).or_default() += number;
                }
            }
            Line::Skipped { reason, .. } => self.skipped = Some(reason),
            Line::Wrong { attack, what } => panic!("{attack}: {what}"),
            line @ Line::Load { .. } => panic!("no line of an attack: {line:?}"),
        }
    }

    /// Asks it to end with its round.
    pub fn end(&mut self) {
        drop(self.program.child.stdin.take());
    }

    /// Ends it.
    pub fn stop(mut self) -> (u64, BTreeMap<String, u64>) {
        self.end();
        let deadline = Instant::now() + ROUND;
        while let Some(line) = self.program.line() {
            self.note(line);
            assert!(Instant::now() < deadline, "{} goes on", self.program.name);
        }
        let ended = self.program.child.wait().unwrap();
        assert!(ended.success(), "{}: {ended}", self.program.name);
        (self.rounds, self.counts)
    }
}
