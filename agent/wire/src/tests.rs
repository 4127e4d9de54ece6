//! Frames over socket pairs, whole and cut.

use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::{
    Bell, Connection, FrameHeader, MAX_DESCRIPTORS, MAX_FRAME_BYTES, ProtocolError, Ready,
    WireError, Writer, is_readable, no_descriptors,
};

fn from_64(header: FrameHeader) -> bool {
    header.kind >= 64
}

fn pair(takes: fn(FrameHeader) -> bool) -> (Connection, Connection) {
    let (one, other) = UnixStream::pair().unwrap();
    let trusted = Connection::trusted(one, no_descriptors).unwrap();
    (trusted, Connection::trusted(other, takes).unwrap())
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

#[test]
fn as_many_descriptors_as_the_kernel_passes_arrive_in_order() {
    let (from, to) = pair(from_64);
    let memfd = |at: usize| {
        let file = rustix::fs::memfd_create("passed", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, at as u64).unwrap();
        file
    };
    let files: Vec<_> = (0..MAX_DESCRIPTORS).map(memfd).collect();
    let borrowed: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    let lengths = Writer::new(64).list(&files, |to, _| to.u64(1 << 21)).end();
    from.send_with(&lengths, &borrowed, soon()).unwrap();
    let (frame, descriptors) = to.receive(soon()).unwrap();
    assert_eq!((frame.kind, frame.payload.as_slice()), (64, &lengths[5..]));
    let lengths = descriptors.iter();
    let lengths = lengths.map(|file| rustix::fs::fstat(file).unwrap().st_size as usize);
    assert!(lengths.eq(0..MAX_DESCRIPTORS));
}

#[test]
fn descriptors_that_nobody_expects_are_never_installed() {
    let (from, to) = pair(no_descriptors);
    let (pipe, watched) = io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&pipe, true).unwrap();
    let frame = Writer::new(64).u64(1).end();
    from.send_with(&frame, &[watched.as_fd()], soon()).unwrap();
    drop(watched);
    let (_, descriptors) = to.receive(soon()).unwrap();
    assert!(descriptors.is_empty());
    // The only writing end is closed: a copy of it would keep the pipe open.
    let mut byte = [0u8; 1];
    assert_eq!(
        rustix::io::read(&pipe, &mut byte),
        Ok(0),
        "{}",
        pipe.as_raw_fd()
    );
}

#[test]
fn a_peer_that_stalls_within_a_frame_is_given_up() {
    let (one, other) = UnixStream::pair().unwrap();
    let wire = Connection::trusted(other, no_descriptors).unwrap();
    let frame = Writer::new(4).end();
    (&one).write_all(&frame[..3]).unwrap();
    let ended = wire.receive(Instant::now() + Duration::from_millis(20));
    assert!(matches!(ended, Err(WireError::TimedOut)), "{ended:?}");
    (&one).write_all(&frame[3..4]).unwrap();
    drop(one);
    assert!(matches!(wire.receive(soon()), Err(WireError::Closed)));
}

#[test]
fn a_peer_that_reads_nothing_is_given_up() {
    let (from, to) = pair(from_64);
    let bytes = vec![7; 16 << 20];
    let ended = from.send(&bytes, Instant::now() + Duration::from_millis(20));
    assert!(matches!(ended, Err(WireError::TimedOut)), "{ended:?}");
    drop(to);
    assert!(matches!(from.send(&bytes, soon()), Err(WireError::Closed)));
}

#[test]
fn a_frame_that_is_too_long_is_refused_before_it_is_read() {
    let (from, to) = pair(no_descriptors);
    from.send(&[0xff; 5], soon()).unwrap();
    let ended = to.receive(soon());
    assert!(
        matches!(ended, Err(WireError::Protocol(ProtocolError::TooLong { found })) if found > MAX_FRAME_BYTES as u64),
        "{ended:?}"
    );
}

#[test]
fn a_bell_rings_until_it_is_hushed() {
    let (one, other) = pair(no_descriptors);
    let bell = Bell::new().unwrap();
    let look = || is_readable(other.as_fd(), &bell, Some(Instant::now())).unwrap();
    let ready = |socket, bell| Ready { socket, bell };
    assert_eq!(look(), ready(false, false));
    bell.ring();
    bell.ring();
    assert_eq!(look(), ready(false, true));
    one.send(&[1], soon()).unwrap();
    assert_eq!(look(), ready(true, true));
    bell.hush();
    assert_eq!(look(), ready(true, false));
}
