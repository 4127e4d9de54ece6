//! A write() stamps a file when it begins and copies its bytes afterwards. A file read while
//! such a call is under way must not be recognized later by what its stamps were then (INV-10).

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};

use tetris_tests::model::{equal_specs, fingerprint, fingerprint_of_file, serialize, write};
use tetris_tests::scratch::Scratch;
use tetris_tests::skip::is_root;

/// Long enough that one call takes longer than the agent waits for the clock to move on.
const TENSORS: u64 = 160;
const TENSOR_LEN: usize = 4 << 20;

#[test]
fn a_file_that_is_being_written_is_never_recognized_as_what_was_read_of_it() {
    let scratch = if is_root() {
        Scratch::mounted("size=2g").unwrap()
    } else {
        Scratch::new().unwrap()
    };
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = dir.path().join("model.safetensors");
    write(&path, &equal_specs(1, TENSORS, TENSOR_LEN)).unwrap();
    let new = serialize(&equal_specs(2, TENSORS, TENSOR_LEN)).unwrap();
    let agent = scratch.agent().unwrap();
    let before = std::fs::metadata(&path).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let file = File::options().write(true).open(&path).unwrap();
            file.write_at(&new, 0).unwrap()
        });
        let stamp = |m: &std::fs::Metadata| (m.ctime(), m.ctime_nsec());
        while stamp(&std::fs::metadata(&path).unwrap()) == stamp(&before) {
            std::hint::spin_loop();
        }
        // Whatever this is, it was in the file.
        drop(agent.load(&path));
        assert_eq!(writer.join().unwrap(), new.len(), "one call");
    });
    let model = agent.load(&path).unwrap();
    assert_eq!(
        fingerprint(&model).unwrap(),
        fingerprint_of_file(&path).unwrap(),
        "wrong weights, recognized by {:?}",
        model.report().recognized
    );
}
