//! Timeouts of a client: they count time in which the server is silent.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tetris_gpu_client::{Client, ClientError, Wanted, WantedModel};
use tetris_gpu_device::MemoryKind;
use tetris_gpu_device::host::HostDevice;
use tetris_gpu_protocol::{PROTOCOL, Reason, Refused, Reply};
use tetris_store_layout::{Digest, ObjectId, ObjectRef};

/// The client's timeout. The server speaks far more often, and for longer.
const TIMEOUT: Duration = Duration::from_secs(1);

fn send(stream: &mut UnixStream, reply: &Reply) {
    stream.write_all(&reply.encode()).unwrap();
}

/// Greets a client and lets it wait in turn, for twice its timeout; then refuses the model.
fn server_that_is_busy(listener: &UnixListener) {
    let (mut stream, _) = listener.accept().unwrap();
    stream.write_all(&PROTOCOL.preamble()).unwrap();
    let ack = Reply::HelloAck {
        memory: MemoryKind::Host,
        server: String::new(),
    };
    send(&mut stream, &ack);
    let begun = Instant::now();
    stream.set_read_timeout(Some(TIMEOUT / 20)).unwrap();
    let mut requests = [0; 4096];
    while begun.elapsed() < TIMEOUT * 2 {
        let waiting = Reply::Waiting {
            need_bytes: 0,
            free_bytes: 0,
        };
        send(&mut stream, &waiting);
        // An error means that the client has sent nothing in that time.
        let _read = stream.read(&mut requests);
    }
    let refused = Refused {
        reason: Reason::DEVICE_FULL,
        missing_bytes: 1,
        missing_objects: 0,
        text: "the last word".to_owned(),
    };
    send(&mut stream, &Reply::Refused(refused));
    while stream.read(&mut requests).is_ok_and(|read| read > 0) {}
}

#[test]
fn a_client_in_turn_waits_longer_than_its_timeout() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("gpu");
    let listener = UnixListener::bind(&socket).unwrap();
    let server = std::thread::spawn(move || server_that_is_busy(&listener));
    let object = ObjectRef {
        id: ObjectId(Digest::of(b"object")),
        crc: 0,
        len: 1,
    };
    let client = Client::connect(&socket, MemoryKind::Host, TIMEOUT).unwrap();
    let wanted = Wanted::new(WantedModel::Objects(vec![object]));
    let mut turns = 0;
    let device = Arc::new(HostDevice::new(0));
    let error = client.acquire(device, &wanted, &mut |_| turns += 1);
    let error = error.unwrap_err();
    assert!(
        matches!(&error, ClientError::Refused(why) if why.text == "the last word"),
        "{error}"
    );
    assert!(turns > 1);
    server.join().unwrap();
}
