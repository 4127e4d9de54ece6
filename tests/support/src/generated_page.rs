//! Tables of documents written from the code.

use std::path::Path;

/// Compares the table of `program` in docs/`page` with `expected`. With UPDATE_GOLDEN it writes the
/// table.
pub fn check(page: &str, program: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|folder| folder.join("docs").join(page))
        .find(|path| path.is_file())
        .expect("the page");
    // Tests of other programs write other tables of the page.
    let lock = std::fs::File::open(&path).unwrap();
    lock.lock().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let begin = format!("<!-- {program}: written by its tests with UPDATE_GOLDEN=1 -->\n");
    let end = format!("<!-- end of {program} -->");
    let (before, rest) = text.split_once(&begin).expect("the mark of the table");
    let (found, after) = rest.split_once(&end).expect("the mark of its end");
    let expected = format!("\n{expected}\n");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, format!("{before}{begin}{expected}{end}{after}")).unwrap();
        return;
    }
    assert_eq!(
        found, expected,
        "docs/{page} differs from {program}; UPDATE_GOLDEN=1 writes it"
    );
}
