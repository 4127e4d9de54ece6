//! Frames over socket pairs, whole and cut.

use std::io::Write;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::*;
use crate::protocol::{MAX_CHUNKS_PER_MESSAGE, MAX_FRAME_BYTES, ProtocolError, Reply, Request};

fn pair(takes_descriptors: bool) -> (Wire, Wire) {
    let (one, other) = UnixStream::pair().unwrap();
    let one = Wire::new(one, false).unwrap();
    (one, Wire::new(other, takes_descriptors).unwrap())
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

#[test]
fn as_many_descriptors_as_the_kernel_passes_arrive_in_order() {
    let (from, to) = pair(true);
    let memfd = |at: usize| {
        let file = rustix::fs::memfd_create("passed", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, at as u64).unwrap();
        file
    };
    let files: Vec<_> = (0..MAX_CHUNKS_PER_MESSAGE).map(memfd).collect();
    let borrowed: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    let reply = Reply::Chunks(vec![1 << 21; files.len()]);
    from.send_with(&reply.encode(), &borrowed, soon()).unwrap();
    let frame = to.receive(soon()).unwrap();
    assert_eq!(Reply::decode(frame.kind, &frame.payload), Ok(reply));
    let lengths = frame.descriptors.iter();
    let lengths = lengths.map(|file| rustix::fs::fstat(file).unwrap().st_size as usize);
    assert!(lengths.eq(0..MAX_CHUNKS_PER_MESSAGE));
}

#[test]
fn descriptors_that_nobody_expects_are_never_installed() {
    let (from, to) = pair(false);
    let (pipe, watched) = io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&pipe, true).unwrap();
    let frame = Reply::Chunks(vec![1]).encode();
    from.send_with(&frame, &[watched.as_fd()], soon()).unwrap();
    drop(watched);
    let frame = to.receive(soon()).unwrap();
    assert!(frame.descriptors.is_empty());
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
    let wire = Wire::new(other, false).unwrap();
    let frame = Request::Objects(vec![]).encode();
    (&one).write_all(&frame[..3]).unwrap();
    let ended = wire.receive(Instant::now() + Duration::from_millis(20));
    assert!(matches!(ended, Err(WireError::TimedOut)), "{ended:?}");
    (&one).write_all(&frame[3..4]).unwrap();
    drop(one);
    assert!(matches!(wire.receive(soon()), Err(WireError::Closed)));
}

#[test]
fn a_peer_that_reads_nothing_is_given_up() {
    let (from, to) = pair(true);
    let bytes = vec![7; 16 << 20];
    let ended = from.send(&bytes, Instant::now() + Duration::from_millis(20));
    assert!(matches!(ended, Err(WireError::TimedOut)), "{ended:?}");
    drop(to);
    assert!(matches!(from.send(&bytes, soon()), Err(WireError::Closed)));
}

#[test]
fn a_frame_that_is_too_long_is_refused_before_it_is_read() {
    let (from, to) = pair(false);
    from.send(&[0xff; 5], soon()).unwrap();
    let ended = to.receive(soon());
    assert!(
        matches!(ended, Err(WireError::Protocol(ProtocolError::TooLong { found })) if found > MAX_FRAME_BYTES as u64),
        "{ended:?}"
    );
}

#[test]
fn a_bell_rings_until_it_is_hushed() {
    let (one, other) = pair(false);
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
