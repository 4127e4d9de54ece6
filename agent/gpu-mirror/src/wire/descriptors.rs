//! Descriptors sent with bytes (SCM_RIGHTS).

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::io::{Errno, Result};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::protocol::MAX_CHUNKS_PER_MESSAGE;

/// Sends the first bytes of `payload` with all of `descriptors`. Returns the number of bytes sent.
pub(super) fn send(
    stream: &UnixStream,
    payload: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_CHUNKS_PER_MESSAGE))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::TOOBIG);
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(stream, &[IoSlice::new(payload)], &mut control, flags)
}

/// Reads the first bytes of a payload and the descriptors sent with them. The kernel drops
/// descriptors without room.
pub(super) fn receive(stream: &UnixStream, payload: &mut [u8]) -> Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_CHUNKS_PER_MESSAGE))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let mut parts = [IoSliceMut::new(payload)];
    let received = recvmsg(stream, &mut parts, &mut control, flags)?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    if received.flags.contains(ReturnFlags::CTRUNC) {
        // This process may open no more files: closes the received descriptors and reports the
        // error.
        return Err(Errno::MFILE);
    }
    Ok((received.bytes, descriptors))
}
