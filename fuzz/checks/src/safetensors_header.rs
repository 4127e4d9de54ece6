//! Checks for any bytes taken for a safetensors file. Shared by the fuzz target and the
//! tests of the loader.

use std::collections::BTreeMap;

use safetensors::tensor::{Metadata, SafeTensors};
use tetris_loader::header::{Header, HeaderProblem, LENGTH_FIELD_LEN, MAX_HEADER_LEN};

use tetris_test_support::heap::Bound;

/// A tensor takes at least 20 bytes of the header in its shortest form, which no writer emits, and up to 300 of
/// memory: its entry, where the list has just grown, and its name in the set of names. An entry of metadata takes 7
/// bytes and about 100.
pub const HEAP: Bound = Bound {
    fixed: 64 << 10,
    per_byte: 16,
};
/// The longest message in bytes: two quoted names, or one and a shape, each cut.
const MAX_MESSAGE_LEN: usize = 8192;

/// Parses `file` and compares with the reference implementation; returns the result of our parser.
///
/// # Panics
/// If the two disagree, or if an accepted header breaks a promise of [`Header`].
pub fn check(file: &[u8]) -> Result<Header, HeaderProblem> {
    // Damage to the JSON mostly makes the length field wrong, and then nothing behind it is looked
    // at: put it right once
    if let Some(json) = file.get(LENGTH_FIELD_LEN as usize..) {
        let mut framed = (json.len() as u64).to_le_bytes().to_vec();
        framed.extend_from_slice(json);
        let _ = check_as_is(&framed);
    }
    check_as_is(file)
}

fn check_as_is(file: &[u8]) -> Result<Header, HeaderProblem> {
    let result = agree(file, file.len() as u64);
    match &result {
        Ok(header) => {
            inside(header, file.len() as u64);
            let tensors = SafeTensors::deserialize(file);
            assert!(
                tensors.is_ok(),
                "the reference refuses the file: {tensors:?}"
            );
        }
        // Few inputs end exactly where their last tensor does. Nothing else was wrong, so the same
        // header must be right for the file that does; that reaches ranges no real file is long
        // enough for.
        Err(HeaderProblem::Uncovered { expected, .. }) => {
            let start = data_start(file).expect("a header that was read has a length");
            if let Some(file_len) = start.checked_add(*expected) {
                let header = agree(file, file_len).expect("only the length of the file was wrong");
                inside(&header, file_len);
            }
        }
        Err(_) => {}
    }
    if let Err(problem) = &result {
        printable(problem);
    }
    result
}

/// Parses with both and compares, for a file of `file_len` bytes that begins with `front`.
fn agree(front: &[u8], file_len: u64) -> Result<Header, HeaderProblem> {
    let ours = HEAP.hold(front.len(), || Header::parse(front, file_len));
    match (&ours, reference(front, file_len)) {
        (Ok(header), Some(metadata)) => same(header, &metadata),
        (Ok(header), None) => panic!("accepted what the reference refuses: {header:?}"),
        (Err(problem), Some(_)) => assert!(
            is_stricter(problem),
            "refused what the reference accepts: {problem}"
        ),
        (Err(_), None) => {}
    }
    ours
}

/// Files that we refuse and the reference accepts. The reference must refuse everything else that
/// we refuse.
fn is_stricter(problem: &HeaderProblem) -> bool {
    matches!(
        problem,
        HeaderProblem::DuplicateName { .. }
            | HeaderProblem::DuplicateMetadataKey { .. }
            | HeaderProblem::LongName { .. }
            | HeaderProblem::TooManyTensors { .. }
            | HeaderProblem::TooMuchMetadata { .. }
            | HeaderProblem::RankTooLarge { .. }
    )
}

/// The reference's reading of the header. Its own check of the file's length is repeated here in
/// arithmetic that cannot overflow (in the crate the sum can, which panics in debug builds), and
/// for files that do not exist in full.
fn reference(front: &[u8], file_len: u64) -> Option<Metadata> {
    let data_start = data_start(front)?;
    if data_start - LENGTH_FIELD_LEN > MAX_HEADER_LEN {
        return None;
    }
    let json = front.get(LENGTH_FIELD_LEN as usize..usize::try_from(data_start).ok()?)?;
    let metadata: Metadata = serde_json::from_str(str::from_utf8(json).ok()?).ok()?;
    let end = data_start.checked_add(metadata.data_len() as u64)?;
    (end == file_len).then_some(metadata)
}

fn data_start(front: &[u8]) -> Option<u64> {
    let length_field = front.first_chunk()?;
    u64::from_le_bytes(*length_field).checked_add(LENGTH_FIELD_LEN)
}

fn same(header: &Header, metadata: &Metadata) {
    assert_eq!(header.tensors.len(), metadata.tensors().len());
    for tensor in &header.tensors {
        let theirs = metadata.info(&tensor.name).expect("a tensor of that name");
        assert_eq!(tensor.dtype, theirs.dtype);
        assert!(
            tensor.shape.iter().eq(theirs
                .shape
                .iter()
                .map(|&d| d as u64)
                .collect::<Vec<_>>()
                .iter())
        );
        assert_eq!(
            (tensor.begin, tensor.end),
            (theirs.data_offsets.0 as u64, theirs.data_offsets.1 as u64)
        );
    }
    let theirs: BTreeMap<String, String> =
        metadata.metadata().clone().into_iter().flatten().collect();
    assert_eq!(header.metadata, theirs);
}

/// Ranges follow one another from the header to the end of the file.
fn inside(header: &Header, file_len: u64) {
    let mut end = 0;
    for tensor in &header.tensors {
        assert_eq!(tensor.begin, end, "{}", tensor.name);
        assert!(tensor.begin <= tensor.end, "{}", tensor.name);
        assert_eq!(tensor.byte_len(), tensor.end - tensor.begin);
        end = tensor.end;
    }
    assert_eq!(header.data_start.checked_add(end), Some(file_len));
}

/// A message goes to terminals and logs, so the file must not control it.
fn printable(problem: &HeaderProblem) {
    let message = problem.to_string();
    assert!(message.len() <= MAX_MESSAGE_LEN, "{} bytes", message.len());
    assert!(!message.contains(char::is_control), "{message:?}");
    assert!(!message.ends_with('.'), "{message}");
}
