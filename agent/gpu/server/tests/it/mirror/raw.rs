//! A client that can send arbitrary bytes.

use std::io::{IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use tetris_gpu_device::MemoryKind;
use tetris_gpu_protocol::{Acquire, MAX_OBJECTS_PER_MESSAGE, ModelNamed, PROTOCOL, Reply, Request};
use tetris_store_layout::ObjectRef;
use tetris_wire::{FRAME_HEADER_BYTES, FrameHeader, PREAMBLE_BYTES};

use super::LONG;

/// Bytes to and from the server. Received descriptors are dropped.
pub struct Raw(pub UnixStream);

impl Raw {
    pub fn connect(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_write_timeout(Some(LONG)).unwrap();
        Self(stream)
    }

    /// Connects with a correct greeting.
    pub fn greeted(socket: &Path) -> Self {
        let mut raw = Self::connect(socket);
        raw.send(&PROTOCOL.preamble());
        raw.say(&Request::Hello {
            memory: MemoryKind::Host,
            pid: 1,
        });
        raw.preamble().unwrap();
        assert!(matches!(raw.hear(), Some(Reply::HelloAck { .. })));
        raw
    }

    pub fn send(&mut self, bytes: &[u8]) {
        // The server may have hung up; the next read reports that.
        let _sent = self.0.write_all(bytes);
    }

    pub fn say(&mut self, request: &Request) {
        self.send(&request.encode());
    }

    pub fn preamble(&mut self) -> Option<[u8; PREAMBLE_BYTES]> {
        let mut bytes = [0; PREAMBLE_BYTES];
        self.0.read_exact(&mut bytes).ok().map(|()| bytes)
    }

    /// The next message; `None` if the server has hung up.
    pub fn hear(&mut self) -> Option<Reply> {
        let mut header = [0; FRAME_HEADER_BYTES];
        match self.0.read_exact(&mut header) {
            Ok(()) => {}
            Err(error) => {
                let kind = error.kind();
                assert!(
                    kind != std::io::ErrorKind::WouldBlock,
                    "the server says nothing"
                );
                return None;
            }
        }
        let header = FrameHeader::decode(header).unwrap();
        let mut payload = vec![0; header.len];
        self.0.read_exact(&mut payload).ok()?;
        Some(Reply::decode(header.kind, &payload).unwrap())
    }

    /// The last message before the server hangs up.
    pub fn last_word(&mut self) -> Option<Reply> {
        let mut last = None;
        while let Some(reply) = self.hear() {
            last = Some(reply);
        }
        last
    }

    /// The descriptors of the next message, which is `Chunks`.
    pub fn descriptors(&mut self) -> Vec<OwnedFd> {
        let mut header = [0; FRAME_HEADER_BYTES];
        self.0.read_exact(&mut header).unwrap();
        let header = FrameHeader::decode(header).unwrap();
        let mut payload = vec![0; header.len];
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut payload)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let read = recvmsg(&self.0, &mut parts, &mut control, flags).unwrap();
        let mut files = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                files.extend(rights);
            }
        }
        self.0.read_exact(&mut payload[read.bytes..]).unwrap();
        let reply = Reply::decode(header.kind, &payload).unwrap();
        assert!(matches!(reply, Reply::Chunks(_)), "{reply:?}");
        files
    }

    pub fn ask_for(&mut self, objects: &[ObjectRef], wait_ms: u32) {
        self.say(&Request::Acquire(Acquire {
            on: None,
            wait_ms,
            order: 0,
            model: ModelNamed::Objects(objects.len() as u32),
        }));
        for part in objects.chunks(MAX_OBJECTS_PER_MESSAGE) {
            self.say(&Request::Objects(part.to_vec()));
        }
    }

    /// Receives messages until one satisfies `wanted`.
    pub fn hear_until(&mut self, wanted: impl Fn(&Reply) -> bool) -> Reply {
        loop {
            let reply = self.hear().unwrap();
            if wanted(&reply) {
                return reply;
            }
        }
    }
}
