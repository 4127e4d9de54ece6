//! Suggestions for mistyped names.

/// Returns the name among `known` that `word` probably stands for.
///
/// A name is near if at most a third of its letters differ, and at least one may: swapped, missing,
/// added or changed. Case does not count.
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let word = word.to_ascii_lowercase();
    known
        .into_iter()
        .map(|name| {
            let differ = strsim::damerau_levenshtein(&word, &name.to_ascii_lowercase());
            (differ, name)
        })
        .filter(|(differ, name)| *differ <= (name.chars().count() / 3).max(1))
        .min_by_key(|(differ, _)| *differ)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_finds_its_name_and_another_word_finds_none() {
        let known = ["interval_secs", "listen", "node"];
        assert_eq!(nearest("intervall_secs", known), Some("interval_secs"));
        assert_eq!(nearest("interval", known), None);
        assert_eq!(nearest("lisetn", known), Some("listen"));
        assert_eq!(nearest("Node", known), Some("node"));
        assert_eq!(nearest("stores", known), None);
        assert_eq!(nearest("x", []), None);
    }
}
