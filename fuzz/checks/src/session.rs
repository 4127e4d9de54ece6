//! Sessions of hostile clients with a server, as bytes decide them: connections, whole and cut
//! messages, garbage, descriptors of every kind, half closes and silence. Shared by the fuzz targets
//! of both protocols and the tests of their crates.

use std::fs::File;
use std::io::{IoSlice, IoSliceMut, PipeWriter, Write as _};
use std::mem::MaybeUninit;
use std::net::{Shutdown, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, OFlags, SealFlags};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recvmsg,
    sendmsg,
};
use tetris_wire::{FRAME_HEADER_BYTES, FrameHeader, PREAMBLE_BYTES};

/// Steps of a session; each begins with a byte modulo their number.
pub const CONNECT: u8 = 0;
pub const GREET: u8 = 1;
pub const SELECT: u8 = 2;
pub const SAY: u8 = 3;
pub const SAY_CUT: u8 = 4;
pub const FRAME: u8 = 5;
pub const BYTES: u8 = 6;
pub const BYTES_WITH: u8 = 7;
pub const SAY_WITH: u8 = 8;
pub const READ: u8 = 9;
pub const HEAR: u8 = 10;
pub const CLOSE: u8 = 11;
pub const CHANGE: u8 = 12;
const STEPS: u8 = 13;

/// Kinds of descriptors; each a byte modulo their number.
pub const MODEL: u8 = 0;
pub const FILE: u8 = 1;
pub const LONG_FILE: u8 = 2;
pub const WRITE_ONLY: u8 = 3;
pub const PATH_ONLY: u8 = 4;
pub const CLOSED_PIPE: u8 = 5;
pub const OPEN_PIPE: u8 = 6;
pub const UNREAD_SOCKET: u8 = 7;
pub const SOCKET_WITH_DESCRIPTORS: u8 = 8;
pub const ITSELF: u8 = 9;
pub const NULL: u8 = 10;
pub const FOLDER: u8 = 11;
pub const PROC: u8 = 12;
pub const LISTENER: u8 = 13;
pub const CHANGING_MODEL: u8 = 14;
pub const EVENTS: u8 = 15;
pub const SEALED_MODEL: u8 = 16;
pub const SEALED: u8 = 17;
const DESCRIPTORS: u8 = 18;

/// Connections of a session at a time.
pub const CLIENTS: usize = 4;
/// Maximum number of steps.
const MAX_STEPS: u32 = 64;
/// Maximum number of waits for a silent server.
const MAX_SILENCE: u32 = 3;
/// Far longer than anything takes: the end of this time shows a fault.
const PATIENCE: Duration = Duration::from_mins(1);

/// A protocol, and messages of its clients.
pub struct Script {
    /// Preamble and first message.
    pub greeting: Vec<u8>,
    /// Whole frames of all kinds.
    pub messages: Vec<Vec<u8>>,
    /// Kinds of a server's messages after which another comes.
    pub passing: &'static [u8],
    /// Content of a file that is a model.
    pub model: Vec<u8>,
    /// Longest wait for a silent server.
    pub silence: Duration,
}

/// A client, and what it has heard.
struct Talk {
    stream: UnixStream,
    heard: Vec<u8>,
    greeted: bool,
    /// Number of answers that no step has waited for.
    answers: u32,
    closed: bool,
}

/// Takes decisions from an input; zeros once it has ended.
struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((byte, rest)) => {
                self.0 = rest;
                *byte
            }
            None => 0,
        }
    }

    /// A length, and as many bytes as there are of it.
    fn bytes(&mut self) -> &'a [u8] {
        let len = usize::from(self.byte());
        let (bytes, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        bytes
    }
}

/// The clients of a session, and the other ends of descriptors.
struct Session<'a> {
    choices: Choices<'a>,
    script: &'a Script,
    socket: &'a Path,
    clients: [Option<Talk>; CLIENTS],
    now: usize,
    silence: u32,
    pipes: Vec<PipeWriter>,
    changing: Vec<File>,
}

/// Plays the session that `input` describes with the server at `socket`, and hangs up. Bytes that
/// were sent are read before, unless a client closed its socket.
///
/// # Panics
///
/// If the server cannot be reached.
pub fn play(input: &[u8], script: &Script, socket: &Path) {
    let mut session = Session {
        choices: Choices(input),
        script,
        socket,
        clients: [const { None }; CLIENTS],
        now: 0,
        silence: 0,
        pipes: Vec::new(),
        changing: Vec::new(),
    };
    for _ in 0..MAX_STEPS {
        if session.choices.0.is_empty() {
            break;
        }
        session.step();
    }
    for client in session.clients.iter_mut().flatten() {
        let _ended = client.stream.shutdown(Shutdown::Write);
        while !client.closed && client.waits(script.silence) {
            client.read(script.passing);
        }
    }
}

impl Talk {
    /// Waits for bytes, or the end; returns false if none came.
    fn waits(&self, longest: Duration) -> bool {
        let longest = Timespec::try_from(longest).expect("a short time");
        let mut fds = [PollFd::new(&self.stream, PollFlags::IN)];
        matches!(poll(&mut fds, Some(&longest)), Ok(1..))
    }

    /// Reads what is there, and drops descriptors.
    fn read(&mut self, passing: &[u8]) {
        let mut bytes = [0; 4096];
        loop {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut slices = [IoSliceMut::new(&mut bytes)];
            let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
            match recvmsg(&self.stream, &mut slices, &mut control, flags) {
                Ok(received) if received.bytes > 0 => {
                    self.heard.extend_from_slice(&bytes[..received.bytes]);
                }
                Err(Errno::AGAIN) => break,
                _ => {
                    self.closed = true;
                    break;
                }
            }
        }
        self.count(passing);
    }

    /// Counts whole answers, and forgets them.
    fn count(&mut self, passing: &[u8]) {
        if !self.greeted && self.heard.len() >= PREAMBLE_BYTES {
            self.heard.drain(..PREAMBLE_BYTES);
            self.greeted = true;
        }
        while self.greeted
            && let Some(header) = self.heard.first_chunk()
        {
            let header = FrameHeader::decode(*header).expect("the server sends frames");
            let end = FRAME_HEADER_BYTES + header.len;
            if self.heard.len() < end {
                break;
            }
            self.answers += u32::from(!passing.contains(&header.kind));
            self.heard.drain(..end);
        }
    }
}

impl<'a> Session<'a> {
    fn step(&mut self) {
        match self.choices.byte() % STEPS {
            CONNECT => self.connect(),
            GREET => {
                self.connect();
                self.send(&self.script.greeting, &[]);
            }
            SELECT => self.now = usize::from(self.choices.byte()) % CLIENTS,
            SAY => {
                let message = self.message();
                self.send(message, &[]);
            }
            SAY_CUT => {
                let message = self.message();
                let len = usize::from(self.choices.byte()).min(message.len());
                self.send(&message[..len], &[]);
            }
            FRAME => {
                let (kind, payload) = (self.choices.byte(), self.choices.bytes());
                let len = payload.len();
                let header = FrameHeader { len, kind }.encode();
                self.send(&[header.as_slice(), payload].concat(), &[]);
            }
            BYTES => {
                let bytes = self.choices.bytes();
                self.send(bytes, &[]);
            }
            BYTES_WITH => {
                let bytes = self.choices.bytes();
                let descriptors = self.descriptors();
                self.send(bytes, &descriptors);
            }
            SAY_WITH => {
                let message = self.message();
                let (header, payload) = message.split_at(FRAME_HEADER_BYTES.min(message.len()));
                let descriptors = self.descriptors();
                self.send(header, &[]);
                self.send(payload, &descriptors);
            }
            READ => self.read(),
            HEAR => self.hear(),
            CLOSE => self.close(),
            _ => {
                let len = u64::from(self.choices.byte());
                for file in &self.changing {
                    let _sealed = file.set_len(len);
                }
            }
        }
    }

    fn connect(&mut self) {
        self.now = usize::from(self.choices.byte()) % CLIENTS;
        self.clients[self.now] = None;
        let stream = UnixStream::connect(self.socket).expect("the server listens");
        stream.set_nonblocking(true).unwrap();
        self.clients[self.now] = Some(Talk {
            stream,
            heard: Vec::new(),
            greeted: false,
            answers: 0,
            closed: false,
        });
    }

    fn message(&mut self) -> &'a [u8] {
        let index = usize::from(self.choices.byte());
        let messages = &self.script.messages;
        &messages[index % messages.len()]
    }

    /// Sends bytes, and descriptors with the first of them, as far as the server takes them.
    fn send(&self, bytes: &[u8], descriptors: &[OwnedFd]) {
        let Some(client) = &self.clients[self.now] else {
            return;
        };
        let descriptors: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
        send(&client.stream, bytes, &descriptors);
    }

    fn descriptors(&mut self) -> Vec<OwnedFd> {
        // As many of the last kind as one byte counts: up to the kernel's limit.
        let kinds = self.choices.byte() % 4;
        let mut all: Vec<OwnedFd> = (0..kinds).filter_map(|_| self.descriptor()).collect();
        let more = usize::from(self.choices.byte()).saturating_sub(all.len());
        if let Some(last) = all.last() {
            let copies: Vec<_> = (0..more)
                .filter_map(|_| last.as_fd().try_clone_to_owned().ok())
                .collect();
            all.extend(copies);
        }
        all
    }

    fn descriptor(&mut self) -> Option<OwnedFd> {
        let opened = |flags: OFlags, path: &str| {
            let mut options = File::options();
            let options = options.read(true).custom_flags(flags.bits().cast_signed());
            Some(options.open(path).ok()?.into())
        };
        Some(match self.choices.byte() % DESCRIPTORS {
            MODEL => memory(&self.script.model)?.into(),
            FILE => memory(self.choices.bytes())?.into(),
            LONG_FILE => {
                let file = memory(b"")?;
                file.set_len(1 << (self.choices.byte() % 48)).ok()?;
                file.into()
            }
            WRITE_ONLY => {
                let file = memory(&self.script.model)?;
                let path = format!("/proc/self/fd/{}", raw(&file));
                File::options().write(true).open(path).ok()?.into()
            }
            PATH_ONLY => {
                let file = memory(&self.script.model)?;
                return opened(OFlags::PATH, &format!("/proc/self/fd/{}", raw(&file)));
            }
            CLOSED_PIPE => std::io::pipe().ok()?.0.into(),
            OPEN_PIPE => {
                let (reader, writer) = std::io::pipe().ok()?;
                self.pipes.push(writer);
                reader.into()
            }
            UNREAD_SOCKET => {
                let (one, mut other) = UnixStream::pair().ok()?;
                other.write_all(b"unread").ok()?;
                one.into()
            }
            SOCKET_WITH_DESCRIPTORS => {
                let (one, other) = UnixStream::pair().ok()?;
                let inner = [one.as_fd(), other.as_fd()];
                send(&other, b"x", &inner);
                one.into()
            }
            ITSELF => {
                let client = self.clients[self.now].as_ref()?;
                client.stream.try_clone().ok()?.into()
            }
            NULL => return opened(OFlags::empty(), "/dev/null"),
            FOLDER => return opened(OFlags::DIRECTORY, "/"),
            PROC => return opened(OFlags::empty(), "/proc/self/status"),
            LISTENER => TcpListener::bind("127.0.0.1:0").ok()?.into(),
            CHANGING_MODEL => {
                let file = memory(&self.script.model)?;
                self.changing.push(file.try_clone().ok()?);
                file.into()
            }
            SEALED_MODEL => sealed(&self.script.model)?.into(),
            SEALED => sealed(self.choices.bytes())?.into(),
            _ => {
                let flags = rustix::event::EventfdFlags::CLOEXEC;
                rustix::event::eventfd(0, flags).ok()?
            }
        })
    }

    fn read(&mut self) {
        if let Some(client) = &mut self.clients[self.now] {
            client.read(self.script.passing);
        }
    }

    /// Waits until the server has given an answer, or hung up.
    fn hear(&mut self) {
        let Some(client) = &mut self.clients[self.now] else {
            return;
        };
        while client.answers == 0 && !client.closed {
            let patient = self.silence < MAX_SILENCE;
            let wait = if patient {
                self.script.silence
            } else {
                Duration::ZERO
            };
            if !client.waits(wait) {
                self.silence += 1;
                return;
            }
            client.read(self.script.passing);
        }
        client.answers = client.answers.saturating_sub(1);
    }

    fn close(&mut self) {
        let how = self.choices.byte() % 4;
        let Some(client) = &self.clients[self.now] else {
            return;
        };
        // It fails if the server has hung up.
        let _ended = match how {
            0 => client.stream.shutdown(Shutdown::Write),
            1 => client.stream.shutdown(Shutdown::Read),
            2 => client.stream.shutdown(Shutdown::Both),
            _ => {
                self.clients[self.now] = None;
                Ok(())
            }
        };
    }
}

fn raw(file: &File) -> i32 {
    use std::os::fd::AsRawFd as _;
    file.as_raw_fd()
}

/// A file in memory that no one can change.
fn sealed(content: &[u8]) -> Option<File> {
    let file = memory(content)?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(&file, seals).ok()?;
    Some(file)
}

/// A file in memory.
fn memory(content: &[u8]) -> Option<File> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(rustix::fs::memfd_create("passed", flags).ok()?);
    file.write_all_at(content, 0).ok()?;
    Some(file)
}

fn send(stream: &UnixStream, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let most = &descriptors[..descriptors.len().min(253)];
    if !most.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(most)));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    // The server may have hung up, or read nothing for a while.
    let _sent = sendmsg(stream, &[IoSlice::new(bytes)], &mut control, flags);
}

/// Number of open descriptors of this process, without those whose target begins with `except`.
pub fn open_descriptors(except: &str) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").expect("the list of descriptors");
    let targets = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    targets
        .filter(|target| !target.to_string_lossy().starts_with(except))
        .count()
}

/// Polls until a condition holds.
///
/// # Panics
///
/// If it never holds.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    let mut pause = Duration::from_micros(50);
    while !holds() {
        assert!(Instant::now() < end, "expected that {what}");
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(5));
    }
}
