//! The committed seeds of the target `daemon_session`.

use crate::daemon_session::{
    ANSWER, ASK_DOMAIN, ASK_WARM, ASSEMBLE, HELLO, INGEST, INGEST_DONE, INGEST_FILE, KEEP_MODEL,
    MAKE_ROOM, MAKE_TOO_MUCH_ROOM, PUBLISH, RANK_MODEL, RECORD, REPORT_MODEL, REPORT_NO_ROOM,
    RESTORE_MODEL, SERVE_MODEL, TAKE_TURN,
};
use crate::session::{
    CHANGING_MODEL, CLOSED_PIPE, EVENTS, FILE, FOLDER, ITSELF, LISTENER, LONG_FILE, MODEL, NULL,
    OPEN_PIPE, PATH_ONLY, PROC, SEALED, SEALED_MODEL, SOCKET_WITH_DESCRIPTORS, UNREAD_SOCKET,
    WRITE_ONLY,
};
use crate::steps::Steps;

/// Name and content of every seed.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let greeted = || Steps::default().greet(0).hear();
    let ingest = |kinds: &[u8]| greeted().say_with(INGEST, kinds, 0).hear();
    let publish = |kinds: &[u8]| greeted().say_with(PUBLISH, kinds, 0).hear();
    let assemble = |kinds: &[u8]| greeted().say_with(ASSEMBLE, kinds, 0).hear();
    let small = [FILE, 3, 1, 2, 3];
    let long = [LONG_FILE, 40];
    let seeds = [
        ("valid-nothing", Steps::default()),
        ("valid-greeting", greeted()),
        ("valid-ingest", ingest(&[MODEL]).say(INGEST_DONE)),
        ("valid-gone-while-held", ingest(&[MODEL]).close(3)),
        (
            "valid-gone-at-once",
            greeted().say_with(INGEST, &[MODEL], 0).close(3),
        ),
        (
            "valid-whole-file",
            greeted()
                .say_with(INGEST_FILE, &[MODEL], 0)
                .hear()
                .say(INGEST_DONE),
        ),
        (
            "valid-two-for-one-file",
            greeted()
                .say_with(INGEST, &[CHANGING_MODEL], 0)
                .greet(1)
                .say_with(INGEST, &[CHANGING_MODEL], 0)
                .change(9)
                .hear()
                .select(0)
                .hear(),
        ),
        ("valid-memory", publish(&[SEALED_MODEL]).say(INGEST_DONE)),
        (
            "valid-memory-gone-at-once",
            greeted().say_with(PUBLISH, &[SEALED_MODEL], 0).close(3),
        ),
        (
            "valid-derived",
            greeted()
                .say_with(ASK_DOMAIN, &[NULL], 0)
                .hear()
                .say_with(PUBLISH, &[SEALED_MODEL], 0)
                .hear()
                .say(INGEST_DONE)
                .say(RECORD)
                .hear(),
        ),
        ("valid-derived-without-domain", greeted().say(RECORD).hear()),
        (
            "valid-turn",
            greeted()
                .say_with(ASK_DOMAIN, &[NULL], 0)
                .hear()
                .say(TAKE_TURN)
                .hear()
                .greet(1)
                .say_with(ASK_DOMAIN, &[NULL], 0)
                .hear()
                .say(TAKE_TURN)
                .select(0)
                .close(3)
                .select(1)
                .hear(),
        ),
        ("valid-turn-without-domain", greeted().say(TAKE_TURN).hear()),
        ("valid-assembly", assemble(&[SEALED_MODEL])),
        ("valid-assembly-not-sealed", assemble(&[MODEL])),
        (
            "valid-assembly-gone-at-once",
            greeted().say_with(ASSEMBLE, &[SEALED_MODEL], 0).close(3),
        ),
        (
            "valid-model-kept",
            greeted()
                .say_with(ASK_DOMAIN, &[MODEL], 0)
                .hear()
                .say(KEEP_MODEL)
                .hear()
                .say(REPORT_MODEL),
        ),
        (
            "valid-model-without-room",
            greeted()
                .say_with(ASK_DOMAIN, &[MODEL], 0)
                .hear()
                .say(KEEP_MODEL)
                .hear()
                .say(RANK_MODEL)
                .hear()
                .say(REPORT_NO_ROOM),
        ),
        (
            "hostile-priority-of-no-model",
            greeted().say(RANK_MODEL).hear(),
        ),
        (
            "valid-model-without-domain",
            greeted().say(KEEP_MODEL).hear(),
        ),
        (
            "valid-model-of-no-cold-tier",
            greeted().say(RESTORE_MODEL).hear(),
        ),
        (
            "hostile-mount-from-a-client",
            greeted().say_with(SERVE_MODEL, &[MODEL], 0).hear(),
        ),
        ("valid-memory-not-sealed", publish(&[MODEL])),
        (
            "valid-memory-of-other-bytes",
            publish(&[SEALED, 3, 1, 2, 3]),
        ),
        ("valid-memory-is-a-pipe", publish(&[OPEN_PIPE])),
        ("valid-file-refused", kinds(greeted(), &small)),
        ("valid-long-file", kinds(greeted(), &long)),
        (
            "valid-room",
            greeted()
                .say(MAKE_ROOM)
                .hear()
                .say(MAKE_TOO_MUCH_ROOM)
                .hear(),
        ),
        ("valid-write-only", ingest(&[WRITE_ONLY])),
        ("valid-path-only", ingest(&[PATH_ONLY])),
        ("valid-closed-pipe", ingest(&[CLOSED_PIPE])),
        ("valid-open-pipe", ingest(&[OPEN_PIPE])),
        ("valid-unread-socket", ingest(&[UNREAD_SOCKET])),
        (
            "valid-socket-with-descriptors",
            ingest(&[SOCKET_WITH_DESCRIPTORS]),
        ),
        ("valid-itself", ingest(&[ITSELF])),
        ("valid-null", ingest(&[NULL])),
        ("valid-folder", ingest(&[FOLDER])),
        ("valid-proc", ingest(&[PROC])),
        ("valid-listener", ingest(&[LISTENER])),
        ("valid-events", ingest(&[EVENTS])),
        (
            "valid-descriptors-with-others",
            greeted().bytes_with(&[0; 1], &[MODEL, OPEN_PIPE], 9),
        ),
        (
            "valid-half-closed",
            greeted().say(MAKE_ROOM).close(0).hear(),
        ),
        ("valid-cut", greeted().say_cut(MAKE_ROOM, 7).close(3)),
        ("valid-warm", greeted().say(ASK_WARM).hear()),
        (
            "hostile-report-of-no-model",
            greeted().say(REPORT_MODEL).hear(),
        ),
        (
            "hostile-many-descriptors",
            greeted().say_with(INGEST, &[MODEL], 200).hear(),
        ),
        (
            "hostile-no-descriptor",
            greeted().say(INGEST).hear().say(INGEST).hear(),
        ),
        (
            "hostile-flood-of-descriptors",
            (0..8).fold(greeted(), |steps, _| {
                steps.bytes_with(&[0, 0, 0, 0, 99], &[SOCKET_WITH_DESCRIPTORS, NULL], 253)
            }),
        ),
        (
            "hostile-no-greeting",
            Steps::default().connect(0).say(MAKE_ROOM).hear(),
        ),
        ("hostile-again", greeted().say(HELLO).hear()),
        ("hostile-done-first", greeted().say(INGEST_DONE).hear()),
        ("hostile-room-twice", ingest(&[MODEL]).say(MAKE_ROOM).hear()),
        ("hostile-answer", greeted().say(ANSWER).hear()),
        ("hostile-too-long", greeted().bytes(&[0xff; 5]).hear()),
        (
            "hostile-text",
            Steps::default()
                .connect(2)
                .bytes(b"GET / HTTP/1.1\r\n\r\n")
                .hear(),
        ),
        (
            "hostile-unknown",
            greeted().frame(200, b"abc").hear().read(),
        ),
        (
            "hostile-beside-one-that-loads",
            ingest(&[MODEL])
                .greet(1)
                .bytes(&[0xff; 9])
                .select(0)
                .say(INGEST_DONE),
        ),
    ];
    seeds.map(|(name, steps)| (name, steps.0)).to_vec()
}

/// A file whose kind has arguments.
fn kinds(greeted: Steps, kind: &[u8]) -> Steps {
    let mut steps = greeted.say_with(INGEST, &[], 0);
    // The number of kinds, then the kind with its arguments; no more descriptors follow.
    steps.0.truncate(steps.0.len() - 2);
    steps.0.push(1);
    steps.0.extend(kind);
    steps.0.push(0);
    steps.hear()
}
