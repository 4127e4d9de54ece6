//! Amounts in words.

use tetris_units::size::Bytes;

/// The amount in words: `8.00 GiB in 1 object`.
pub(crate) fn in_objects(bytes: u64, objects: u64) -> String {
    format!("{} in {}", Bytes(bytes), counted(objects, "object"))
}

/// `1 object`, or `2 objects`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_object_has_no_plural() {
        assert_eq!(in_objects(1 << 20, 1), "1.00 MiB in 1 object");
        assert_eq!(in_objects(0, 0), "0 B in 0 objects");
    }
}
