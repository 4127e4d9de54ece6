//! The committed seeds of the target `mirror_session`.

use crate::mirror_session::{
    ACQUIRE_ALL_AND_WAIT, ACQUIRE_IN_ORDER, ACQUIRE_MANIFEST, ACQUIRE_TWO, ACQUIRE_UNKNOWN,
    ALL_OBJECTS, ANSWER, DESCRIBE, LIST_DEVICES, ORDER, PREFETCH_TWO, RELEASE, STATUS, TAKEN,
    TWO_OBJECTS,
};
use crate::session::{EVENTS, MODEL, NULL, OPEN_PIPE, SOCKET_WITH_DESCRIPTORS, UNREAD_SOCKET};
use crate::steps::Steps;

/// Name and content of every seed.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let greeted = || Steps::default().greet(0).hear();
    let acquire = || greeted().say(ACQUIRE_TWO).say(TWO_OBJECTS).hear();
    let acquired = || acquire().say(TAKEN).hear();
    let prefetch = || greeted().say(PREFETCH_TWO).say(TWO_OBJECTS).hear();
    let seeds = [
        ("valid-nothing", Steps::default()),
        ("valid-greeting", greeted()),
        (
            "valid-questions",
            greeted().say(LIST_DEVICES).hear().say(STATUS).hear(),
        ),
        ("valid-model", acquired().say(RELEASE).hear()),
        (
            "valid-model-twice",
            acquired()
                .say(RELEASE)
                .hear()
                .say(ACQUIRE_MANIFEST)
                .hear()
                .say(TAKEN)
                .hear(),
        ),
        (
            "valid-order",
            greeted()
                .say(ACQUIRE_IN_ORDER)
                .say(TWO_OBJECTS)
                .say(ORDER)
                .hear()
                .say(TAKEN)
                .hear(),
        ),
        ("valid-prefetch", prefetch().say(RELEASE).hear()),
        ("valid-prefetch-gone", prefetch().close(3)),
        (
            "valid-prefetch-then-model",
            prefetch()
                .greet(1)
                .say(ACQUIRE_TWO)
                .say(TWO_OBJECTS)
                .hear()
                .say(TAKEN)
                .hear(),
        ),
        ("valid-description", greeted().say(DESCRIBE).hear()),
        (
            "hostile-description-while-held",
            prefetch().say(DESCRIBE).hear(),
        ),
        ("valid-gone-before-taken", acquire().close(3)),
        ("valid-gone-while-held", acquired().close(3)),
        ("valid-status-while-held", acquired().say(STATUS).hear()),
        ("valid-unknown-model", greeted().say(ACQUIRE_UNKNOWN).hear()),
        (
            "valid-waits-for-another",
            acquired()
                .greet(1)
                .say(ACQUIRE_ALL_AND_WAIT)
                .say(ALL_OBJECTS)
                .hear()
                .select(0)
                .say(RELEASE)
                .hear()
                .select(1)
                .hear(),
        ),
        ("valid-half-a-model", greeted().say(ACQUIRE_TWO).close(3)),
        ("valid-cut", greeted().say_cut(ACQUIRE_TWO, 9).close(3)),
        (
            "valid-descriptors",
            greeted()
                .say_with(LIST_DEVICES, &[], 0)
                .bytes_with(b"", &[NULL, EVENTS], 3)
                .hear(),
        ),
        (
            "hostile-flood-of-descriptors",
            (0..8).fold(greeted(), |steps, _| {
                steps.bytes_with(
                    &[0, 0, 0, 0, 99],
                    &[SOCKET_WITH_DESCRIPTORS, UNREAD_SOCKET],
                    253,
                )
            }),
        ),
        (
            "valid-descriptors-cut",
            greeted()
                .bytes_with(&[9], &[MODEL, OPEN_PIPE], 9)
                .say(STATUS),
        ),
        (
            "hostile-no-greeting",
            (0..3)
                .fold(Steps::default().connect(0), |steps, _| steps.say(STATUS))
                .hear(),
        ),
        ("hostile-taken-first", greeted().say(TAKEN).hear()),
        ("hostile-order-first", greeted().say(ORDER).hear()),
        ("hostile-acquire-twice", acquire().say(ACQUIRE_TWO).hear()),
        (
            "hostile-acquire-while-held",
            acquired().say(ACQUIRE_TWO).hear(),
        ),
        (
            "hostile-wrong-objects",
            greeted().say(ACQUIRE_IN_ORDER).say(ORDER).hear(),
        ),
        ("hostile-answer", greeted().say(ANSWER).hear()),
        ("hostile-too-long", greeted().bytes(&[0xff; 5]).hear()),
        (
            "hostile-text",
            Steps::default()
                .connect(3)
                .bytes(b"GET / HTTP/1.1\r\n\r\n")
                .hear(),
        ),
        (
            "hostile-unknown",
            greeted().frame(200, b"abc").hear().read(),
        ),
        ("hostile-no-manifests", greeted().frame(3, &[0; 26]).hear()),
    ];
    seeds.map(|(name, steps)| (name, steps.0)).to_vec()
}
