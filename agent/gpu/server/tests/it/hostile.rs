//! Clients that violate the protocol, and other clients during that time.

use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tetris_gpu_client::ClientError;
use tetris_gpu_device::MemoryKind;
use tetris_gpu_protocol::{Acquire, ErrorCode, ModelNamed, PROTOCOL, Reason, Reply, Request};
use tetris_gpu_server::Limits;
use tetris_wire::{Closer, MAX_FRAME_BYTES};

use crate::mirror::raw::Raw;
use crate::mirror::{LONG, Mirror, check, eventually};

/// Checks that another client is served before and after `hostile`.
fn others_are_served(mirror: &Mirror, hostile: impl FnOnce()) {
    let objects = mirror.model(&["theirs 1", "theirs 2"], 500);
    let model = mirror.acquire(&objects).unwrap();
    hostile();
    check(&model, &objects, &["theirs 1", "theirs 2"], 500);
    let again = mirror.acquire(&objects).unwrap();
    check(&again, &objects, &["theirs 1", "theirs 2"], 500);
}

fn code(reply: Option<Reply>) -> ErrorCode {
    match reply {
        Some(Reply::Error { code, .. }) => code,
        other => panic!("expected an error, found {other:?}"),
    }
}

#[test]
fn garbage_is_answered_and_hung_up_on() {
    let mirror = Mirror::new(32);
    others_are_served(&mirror, || {
        let mut http = Raw::connect(&mirror.socket);
        http.send(b"GET / HTTP/1.1\r\n\r\n");
        assert_eq!(PROTOCOL.check_preamble(&http.preamble().unwrap()), Ok(()));
        assert_eq!(code(http.last_word()), ErrorCode::MALFORMED);
        for bytes in [&[0xff; 64][..], &[0, 0, 0, 0, 200], &[1, 0, 0, 0, 3, 9]] {
            let mut raw = Raw::greeted(&mirror.socket);
            raw.send(bytes);
            let code = code(raw.last_word());
            assert!([ErrorCode::MALFORMED, ErrorCode::UNKNOWN_KIND].contains(&code));
        }
    });
    eventually("the broken ones are counted", || {
        mirror.server.counters().connections_broken == 4
    });
}

#[test]
fn another_version_learns_which_one_this_is() {
    let mirror = Mirror::new(32);
    let mut newer = PROTOCOL.preamble();
    newer[8] = 9;
    let mut raw = Raw::connect(&mirror.socket);
    raw.send(&newer);
    assert_eq!(raw.preamble(), Some(PROTOCOL.preamble()));
    assert_eq!(code(raw.last_word()), ErrorCode::MALFORMED);
}

#[test]
fn messages_out_of_turn_end_the_connection() {
    let mirror = Mirror::new(32);
    let objects = mirror.model(&["a"], 100);
    let acquire = |order| {
        Request::Acquire(Acquire {
            on: None,
            wait_ms: 0,
            order,
            model: ModelNamed::Objects(1),
        })
    };
    others_are_served(&mirror, || {
        for before in [
            vec![Request::Release],
            vec![Request::Taken],
            vec![Request::Objects(objects.clone())],
            vec![acquire(0), Request::Status],
            vec![acquire(0), Request::Objects(vec![objects[0]; 2])],
            vec![acquire(u32::MAX), Request::Objects(objects.clone())],
        ] {
            let mut raw = Raw::greeted(&mirror.socket);
            for request in &before {
                raw.say(request);
            }
            assert_eq!(code(raw.last_word()), ErrorCode::OUT_OF_TURN, "{before:?}");
        }
        let mut raw = Raw::greeted(&mirror.socket);
        raw.ask_for(&objects, 0);
        raw.say(&Request::ListDevices);
        assert_eq!(
            code(raw.last_word()),
            ErrorCode::OUT_OF_TURN,
            "before Taken"
        );
        let mut raw = Raw::connect(&mirror.socket);
        raw.send(&PROTOCOL.preamble());
        raw.say(&Request::Status);
        raw.preamble().unwrap();
        assert_eq!(
            code(raw.last_word()),
            ErrorCode::OUT_OF_TURN,
            "before Hello"
        );
        let mut raw = Raw::connect(&mirror.socket);
        raw.send(&PROTOCOL.preamble());
        raw.say(&Request::Hello {
            memory: MemoryKind::CudaHandles,
            pid: 0,
        });
        raw.preamble().unwrap();
        assert_eq!(code(raw.last_word()), ErrorCode::OTHER_MEMORY);
    });
}

#[test]
fn a_client_that_asks_for_other_memory_is_refused_and_not_counted_as_broken() {
    let mirror = Mirror::new(32);
    let mut raw = Raw::connect(&mirror.socket);
    raw.send(&PROTOCOL.preamble());
    raw.say(&Request::Hello {
        memory: MemoryKind::CudaDescriptors,
        pid: 0,
    });
    raw.preamble().unwrap();
    assert_eq!(code(raw.last_word()), ErrorCode::OTHER_MEMORY);
    // The server counts before it answers.
    assert_eq!(mirror.server.counters().connections_broken, 0);
}

#[test]
fn a_connection_may_ask_for_one_model_after_the_other() {
    let mirror = Mirror::new(32);
    let (a, b) = (mirror.model(&["a"], 100), mirror.model(&["b"], 100));
    let mut raw = Raw::greeted(&mirror.socket);
    for objects in [&a, &b, &a] {
        raw.ask_for(objects, 0);
        raw.hear_until(|reply| matches!(reply, Reply::Chunks(_)));
        raw.say(&Request::Taken);
        raw.hear_until(|reply| *reply == Reply::Complete);
        assert_eq!(mirror.usage().held_models, 1);
        raw.say(&Request::Release);
        raw.hear_until(|reply| *reply == Reply::Released);
        assert_eq!(mirror.usage().held_models, 0);
    }
    raw.say(&Request::Status);
    raw.hear_until(|reply| matches!(reply, Reply::StatusReport(_)));
}

#[test]
fn half_messages_and_silence_are_given_up() {
    let limits = Limits {
        message_timeout: Duration::from_secs(2),
        ..Limits::default()
    };
    let mirror = Mirror::with(32, limits, None);
    let objects = mirror.model(&["a"], 100);
    let mut silent = Raw::connect(&mirror.socket);
    let mut half = Raw::greeted(&mirror.socket);
    half.send(&Request::Objects(objects.clone()).encode()[..20]);
    let mut fewer = Raw::greeted(&mirror.socket);
    fewer.say(&Request::Acquire(Acquire {
        on: None,
        wait_ms: 0,
        order: 0,
        model: ModelNamed::Objects(2),
    }));
    fewer.say(&Request::Objects(objects.clone()));
    let mut untaken = Raw::greeted(&mirror.socket);
    untaken.ask_for(&objects, 0);
    for stalled in [&mut silent, &mut half, &mut fewer, &mut untaken] {
        let last = stalled.last_word();
        assert!(!matches!(last, Some(Reply::Error { .. })), "{last:?}");
    }
    eventually("all were given up", || {
        mirror.server.connections() == 0 && mirror.usage().held_models == 0
    });
    let model = mirror.acquire(&objects).unwrap();
    check(&model, &objects, &["a"], 100);
}

#[test]
fn a_client_that_never_reads_harms_itself() {
    let limits = Limits {
        message_timeout: Duration::from_secs(2),
        ..Limits::default()
    };
    let mirror = Mirror::with(32, limits, None);
    let mut raw = Raw::greeted(&mirror.socket);
    let status = Request::Status.encode().repeat(MAX_FRAME_BYTES / 8);
    raw.0.set_nonblocking(true).unwrap();
    // Until the server stops taking requests, because no one reads its answers, or has hung up.
    while matches!((&raw.0).write(&status), Ok(1..)) {}
    others_are_served(&mirror, || {});
    eventually("it was given up", || mirror.server.connections() == 0);
    raw.0.set_nonblocking(false).unwrap();
    raw.last_word();
}

#[test]
fn too_many_connections_of_one_user_are_closed_and_places_are_given_back() {
    let limits = Limits {
        connections_of_user: 3,
        ..Limits::default()
    };
    let mirror = Mirror::with(32, limits, None);
    let objects = mirror.model(&["a"], 100);
    let model = mirror.acquire(&objects).unwrap();
    let crowd: Vec<_> = (0..2).map(|_| Raw::greeted(&mirror.socket)).collect();
    for _ in 0..20 {
        let mut one_more = Raw::connect(&mirror.socket);
        assert_eq!(one_more.preamble(), None, "closed at once");
    }
    // A connection is closed before it is counted.
    eventually("all are counted", || {
        mirror.server.counters().connections_refused == 20
    });
    let refused = tetris_gpu_client::Client::connect(&mirror.socket, MemoryKind::Host, LONG);
    assert!(matches!(refused, Err(ClientError::Closed)), "{refused:?}");
    check(&model, &objects, &["a"], 100);
    drop(crowd);
    eventually("the places are free", || mirror.server.connections() == 1);
    check(&mirror.acquire(&objects).unwrap(), &objects, &["a"], 100);
}

#[test]
fn a_flood_of_requests_that_nobody_waits_for_leaves_nothing_held() {
    let mirror = Mirror::new(64);
    let names: Vec<String> = (0..40).map(|number| number.to_string()).collect();
    let models: Vec<_> = names
        .iter()
        .map(|name| mirror.model(&[name.as_str()], 1000))
        .collect();
    others_are_served(&mirror, || {
        for objects in &models {
            let mut raw = Raw::greeted(&mirror.socket);
            raw.ask_for(objects, 0);
        }
    });
    eventually("everything ended", || {
        mirror.server.connections() == 0 && mirror.usage().held_models == 0
    });
    let model = mirror.acquire_within(&models[7], LONG).unwrap();
    check(&model, &models[7], &["7"], 1000);
}

#[test]
fn models_that_wait_leave_mappings_for_others() {
    const MOST: usize = 3_000;
    let limits = Limits {
        mapped_objects: MOST,
        ..Limits::default()
    };
    let mirror = Mirror::with(8, limits, None);
    let fifth = mirror.acquire(&mirror.model(&["held"], 5_000)).unwrap();
    let names: Vec<_> = (0..1_200).map(|number| number.to_string()).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let many = mirror.model(&names, 4);
    let before = mappings();
    let waiting: Vec<_> = (0..8)
        .map(|_| {
            let mut raw = Raw::greeted(&mirror.socket);
            raw.ask_for(&many, 60_000);
            raw.hear_until(|reply| matches!(reply, Reply::Waiting { .. }));
            raw
        })
        .collect();
    // Threads and their stacks are some, too.
    let grown = mappings() - before;
    assert!(grown < MOST, "{grown} mappings more");
    // One that does not wait is told.
    let mut raw = Raw::greeted(&mirror.socket);
    raw.ask_for(&many, 0);
    let refused = raw.hear_until(|reply| matches!(reply, Reply::Refused(_)));
    let Reply::Refused(refused) = refused else {
        unreachable!("it was heard");
    };
    assert_eq!(refused.reason, Reason::IN_USE, "{refused:?}");
    drop(waiting);
    drop(fifth);
    eventually("the others ended", || mirror.server.connections() == 1);
    // All objects may be mapped again.
    let model = mirror.acquire_within(&many, LONG).unwrap();
    model.wait_all(LONG).unwrap();
}

#[test]
fn models_of_too_many_objects_are_refused_until_others_are_released() {
    let limits = Limits {
        held_objects: 100,
        ..Limits::default()
    };
    let mirror = Mirror::with(32, limits, None);
    let names: Vec<_> = (0..40).map(|number| number.to_string()).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let many = mirror.model(&names, 4);
    let models = mirror.acquire(&many).unwrap();
    let mut raw = Raw::greeted(&mirror.socket);
    for _ in 0..3 {
        raw.ask_for(&many, 60_000);
        let refused = raw.hear_until(|reply| matches!(reply, Reply::Refused(_)));
        let says = format!("{refused:?}");
        assert!(says.contains("10 more are permitted"), "{says}");
    }
    check(
        &mirror.acquire(&many[..10]).unwrap(),
        &many[..10],
        &names[..10],
        4,
    );
    drop(models);
    eventually("the model is free", || mirror.usage().held_models == 0);
    check(&mirror.acquire(&many).unwrap(), &many, &names, 4);
}

fn mappings() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().count()
}

#[test]
fn a_model_that_waits_can_be_given_up() {
    let mirror = Mirror::new(4);
    let (a, b) = (mirror.model(&["a"], 4000), mirror.model(&["b"], 4000));
    let model_a = mirror.acquire(&a).unwrap();
    let mut raw = Raw::greeted(&mirror.socket);
    raw.ask_for(&b, 60_000);
    raw.hear_until(|reply| matches!(reply, Reply::Waiting { .. }));
    raw.say(&Request::Release);
    raw.hear_until(|reply| *reply == Reply::Released);
    raw.ask_for(&b, 60_000);
    raw.hear_until(|reply| matches!(reply, Reply::Waiting { .. }));
    drop(raw);
    eventually("nobody waits", || mirror.server.connections() == 1);
    check(&model_a, &a, &["a"], 4000);
}

/// A socket whose last close waits for an hour: no one reads at the other end.
fn lingering(listener: &TcpListener) -> (TcpStream, TcpStream) {
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let unread = listener.accept().unwrap().0;
    stream.set_nonblocking(true).unwrap();
    while stream.write(&[7; 4096]).is_ok() {}
    let hour = Some(Duration::from_hours(1));
    rustix::net::sockopt::set_socket_linger(&stream, hour).unwrap();
    (stream, unread)
}

fn pass(to: &Raw, bytes: &[u8], what: &TcpStream) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let what = [what.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&what)));
    let bytes = [IoSlice::new(bytes)];
    // It may have been refused already.
    let _sent = sendmsg(&to.0, &bytes, &mut control, SendFlags::NOSIGNAL);
}

#[test]
fn sockets_whose_last_close_waits_hold_up_neither_others_nor_the_end() {
    let limits = Limits {
        connections_of_user: 20,
        ..Limits::default()
    };
    let mirror = Mirror::with(32, limits, None);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let closer = Closer::new(1);
    let mut unread = Vec::new();
    others_are_served(&mirror, || {
        for way in 0..60 {
            let raw = Raw::connect(&mirror.socket);
            let (socket, other_end) = lingering(&listener);
            if way % 2 == 0 {
                pass(&raw, &PROTOCOL.preamble(), &socket);
            } else {
                // What follows is never read.
                pass(&raw, b"no preamble.", &socket);
                pass(&raw, b"more", &socket);
            }
            // Where the server was faster this is the last close.
            closer.attend(|| drop(socket));
            unread.push((other_end, raw));
        }
        eventually("some are refused", || {
            mirror.server.counters().connections_refused >= 1
        });
        // Those that are there leave their places when they end.
        for (_, raw) in &unread {
            drop(raw.0.shutdown(Shutdown::Both));
        }
        eventually("all are gone", || mirror.server.connections() <= 1);
    });
    drop(mirror);
}
