//! Unique identifiers of objects of a cluster, at the end of names.

/// Bytes of a UUID as text.
const UUID_BYTES: usize = 36;

/// Returns true if `text` is a UUID as Kubernetes writes them. Only such texts become part of a
/// path.
pub(crate) fn is_uuid(text: &str) -> bool {
    let dash = |place: usize| matches!(place, 8 | 13 | 18 | 23);
    let letter = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == UUID_BYTES
        && text.bytes().enumerate().all(|(place, byte)| {
            if dash(place) {
                byte == b'-'
            } else {
                letter(byte)
            }
        })
}

/// A name without the identifier that it ends with, after a dot; and the identifier, if it has one.
pub(crate) fn split_uuid(name: &str) -> (&str, Option<&str>) {
    match name.rsplit_once('.') {
        Some((rest, uuid)) if is_uuid(uuid) => (rest, Some(uuid)),
        _ => (name, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "01234567-89ab-4cde-8fed-ba9876543210";

    #[test]
    fn names_end_with_an_identifier_or_have_none() {
        let name = format!("a.b.{UUID}");
        assert_eq!(split_uuid(&name), ("a.b", Some(UUID)));
        let long = format!("a.{UUID}0");
        let upper = format!("a.{}", UUID.to_uppercase());
        let joined = format!("a-{UUID}");
        for name in ["a", "a.b", "", UUID, &long, &upper, &joined] {
            assert_eq!(split_uuid(name), (name, None));
        }
    }
}
