//! Lists of declarations.

use std::collections::BTreeSet;
use std::str::FromStr;

use proptest::prelude::*;
use tetris_node::keep_warm::{Declaration, DeclarationError, MAX_NAME_BYTES};
use tetris_node::kubernetes::{ItemError, MAX_MODELS, parse_annotation};

fn digest() -> String {
    "0123456789abcdef".repeat(4)
}

#[test]
fn the_three_forms_are_told_apart() {
    let digest = digest();
    let parsed = |text: &str| text.parse::<Declaration>().unwrap();
    assert_eq!(
        parsed(&format!("manifest:{digest}")),
        Declaration::Manifest(digest.clone())
    );
    assert_eq!(
        parsed(&format!("sha256:{digest}")),
        Declaration::Sha256(digest.clone())
    );
    assert_eq!(
        parsed("org/model:v1@main"),
        Declaration::Name("org/model:v1@main".into())
    );
    assert_eq!(
        parsed("Mod\u{e8}le-\u{65e5}"),
        Declaration::Name("Mod\u{e8}le-\u{65e5}".into())
    );
    assert_eq!(parsed(&digest), Declaration::Name(digest));
}

#[test]
fn digests_in_upper_case_are_the_same_digests() {
    let upper = format!("sha256:{}", digest().to_uppercase());
    assert_eq!(upper.parse(), Ok(Declaration::Sha256(digest())));
}

#[test]
fn what_names_no_model_is_refused_with_its_reason() {
    let digest = digest();
    for bad in [
        &digest[1..],
        &format!("{digest}0"),
        "",
        &format!("{}g", &digest[1..]),
    ] {
        let error = Declaration::from_str(&format!("manifest:{bad}")).unwrap_err();
        assert!(matches!(&error, DeclarationError::Digest { .. }), "{error}");
        assert!(
            error.to_string().contains("64 hexadecimal digits"),
            "{error}"
        );
    }
    assert_eq!(Declaration::from_str(""), Err(DeclarationError::Empty));
    for character in ['\0', '\u{7f}', '\u{200b}', '\u{202e}', ' ', ',', '\n'] {
        let error = Declaration::from_str(&format!("a{character}b")).unwrap_err();
        assert!(
            matches!(error, DeclarationError::Character { character: found, .. } if found == character)
        );
    }
}

#[test]
fn names_have_at_most_253_bytes() {
    let longest = "n".repeat(MAX_NAME_BYTES);
    assert!(Declaration::from_str(&longest).is_ok());
    let error = Declaration::from_str(&format!("{longest}n")).unwrap_err();
    assert!(matches!(error, DeclarationError::Length { bytes: 254, .. }));
    // Bytes, not characters.
    assert!(Declaration::from_str(&"\u{e9}".repeat(127)).is_err());
}

#[test]
fn a_long_item_is_not_repeated_whole() {
    let error = Declaration::from_str(&"n".repeat(200_000)).unwrap_err();
    assert!(error.to_string().len() < 300, "{error}");
}

#[test]
fn items_are_separated_by_commas_and_white_space() {
    let declared = parse_annotation(" ,a,b  c\n\td,,\r\n a\u{2003}e,");
    let models: Vec<String> = declared.models.iter().map(ToString::to_string).collect();
    assert_eq!(models, ["a", "b", "c", "d", "e"]);
    assert_eq!((declared.left_out, declared.first_error), (0, None));
}

#[test]
fn the_rest_of_a_list_with_errors_counts() {
    let declared = parse_annotation("a sha256:1 b manifest: c");
    assert_eq!(declared.models.len(), 3);
    assert_eq!(declared.left_out, 2);
    let first = declared.first_error.unwrap().to_string();
    assert!(first.starts_with("sha256:\"1\""), "{first}");
}

#[test]
fn a_pod_declares_at_most_1024_models_and_may_repeat_them() {
    let list: Vec<String> = (0..MAX_MODELS + 2).map(|n| format!("m{n}")).collect();
    let list = list.join(",") + ",m0,m1";
    let declared = parse_annotation(&list);
    assert_eq!(declared.models.len(), MAX_MODELS);
    assert_eq!(declared.left_out, 2);
    let item = Declaration::Name(format!("m{MAX_MODELS}"));
    assert_eq!(declared.first_error, Some(ItemError::TooMany { item }));
}

fn declaration() -> impl Strategy<Value = Declaration> {
    prop_oneof![
        "[0-9a-f]{64}".prop_map(Declaration::Manifest),
        "[0-9a-f]{64}".prop_map(Declaration::Sha256),
        "[a-z0-9][-!-+./:-~\u{e0}-\u{f6}\u{4e00}-\u{9fff}]{0,60}"
            .prop_filter("not of another form", |name| {
                !name.starts_with("manifest:") && !name.starts_with("sha256:")
            })
            .prop_map(Declaration::Name),
    ]
}

proptest! {
    #[test]
    fn any_text_is_read_and_every_item_is_accounted_for(list in any::<String>()) {
        let declared = parse_annotation(&list);
        let separator = |c: char| c == ',' || c.is_whitespace();
        let items = list.split(separator).filter(|item| !item.is_empty()).count() as u64;
        prop_assert!(declared.models.len() as u64 + declared.left_out <= items);
        prop_assert_eq!(declared.left_out > 0, declared.first_error.is_some());
        for model in &declared.models {
            prop_assert_eq!(model.to_string().parse(), Ok(model.clone()));
        }
    }

    #[test]
    fn bytes_near_the_forms_are_read(
        list in "((manifest|sha256)?:?[0-9a-fA-Fg]{0,66}[, \t\u{200b}\u{0}]?){0,20}",
    ) {
        for model in parse_annotation(&list).models {
            prop_assert_eq!(model.to_string().parse(), Ok(model));
        }
    }

    #[test]
    fn a_list_that_is_written_is_read_back(
        models in prop::collection::btree_set(declaration(), 0..50),
        separator in "[, \n]{1,3}",
    ) {
        let list: Vec<String> = models.iter().map(ToString::to_string).collect();
        let declared = parse_annotation(&list.join(&separator));
        prop_assert_eq!(declared.left_out, 0, "{:?}", declared.first_error);
        prop_assert_eq!(declared.models, models.into_iter().collect::<BTreeSet<_>>());
    }
}
