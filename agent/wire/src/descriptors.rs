//! Descriptors sent with bytes (SCM_RIGHTS).

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, Result};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Maximum number of descriptors that the kernel passes with one message (`SCM_MAX_FD`).
pub const MAX_DESCRIPTORS: usize = 253;

/// Result of one read.
#[derive(Debug)]
pub struct Received {
    /// Number of bytes; 0 if the other side has hung up.
    pub bytes: usize,
    /// Descriptors that came with them. Closing one may wait.
    pub descriptors: Vec<OwnedFd>,
    /// True if more came, which the kernel closed: this process may open no more files.
    pub lost: bool,
}

/// Reads without waiting, with room for all descriptors that can come: the kernel would close the
/// others in this thread.
///
/// # Errors
///
/// The system's error; [`Errno::AGAIN`] if there is nothing to read.
pub fn receive(stream: impl AsFd, bytes: &mut [u8]) -> Result<Received> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = recvmsg(stream, &mut [IoSliceMut::new(bytes)], &mut control, flags)?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    Ok(Received {
        bytes: received.bytes,
        descriptors,
        lost: received.flags.contains(ReturnFlags::CTRUNC),
    })
}

/// Sends the first bytes of `payload` with all of `descriptors`, without waiting. Returns the
/// number of bytes sent.
///
/// # Errors
///
/// The system's error; [`Errno::AGAIN`] if there is no room, [`Errno::TOOBIG`] for more than [`MAX_DESCRIPTORS`].
pub fn pass(stream: impl AsFd, payload: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::TOOBIG);
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(stream, &[IoSlice::new(payload)], &mut control, flags)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn there_is_room_for_as_many_descriptors_as_can_come() {
        let (from, to) = UnixStream::pair().unwrap();
        let all: Vec<BorrowedFd<'_>> = vec![from.as_fd(); MAX_DESCRIPTORS];
        let mut space =
            vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
        for _ in 0..2 {
            let mut control = SendAncillaryBuffer::new(&mut space);
            assert!(control.push(SendAncillaryMessage::ScmRights(&all)));
            sendmsg(
                &from,
                &[IoSlice::new(b"ab")],
                &mut control,
                SendFlags::empty(),
            )
            .unwrap();
        }
        let mut bytes = [0; 8];
        // Two messages with descriptors are never read as one.
        for _ in 0..2 {
            let received = receive(&to, &mut bytes).unwrap();
            assert_eq!(received.bytes, 2);
            assert_eq!(received.descriptors.len(), MAX_DESCRIPTORS);
            assert!(!received.lost);
        }
        // No message can have more.
        let all = vec![from.as_fd(); MAX_DESCRIPTORS + 1];
        let mut space =
            vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS + 1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&all)));
        sendmsg(
            &from,
            &[IoSlice::new(b"ab")],
            &mut control,
            SendFlags::empty(),
        )
        .unwrap_err();
    }
}
