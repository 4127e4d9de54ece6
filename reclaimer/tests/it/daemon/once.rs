//! One pass, and the check of a configuration.

use serde_json::Value;

use crate::daemon::harness::{Place, command};

const EXPIRE_AT_ONCE: &str =
    "[policy.store]\nkeep_alive_secs = 0\nexpiry = \"fixed\"\nexpire_after_secs = 0\n";

#[test]
fn one_pass_frees_and_says_so() {
    let place = Place::new();
    let store = place.store();
    let config = place.config(EXPIRE_AT_ONCE);
    let held = place.load(50_000, 1);
    drop(place.load(60_000, 2));
    let dry = command(&["once", "--dry-run", "--format", "json"], &config);
    assert!(dry.status.success(), "{dry:?}");
    let dry: Value = serde_json::from_slice(&dry.stdout).unwrap();
    assert_eq!(dry["dry_run"], true);
    assert_eq!(
        dry["passes"][0]["freed"]["keep-alive-expired"]["objects"],
        1
    );
    assert_eq!(store.objects().unwrap().objects.len(), 2);
    let text = command(&["once"], &config);
    assert!(text.status.success(), "{text:?}");
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(
        text.contains("freed                 1 objects            61440 bytes  keep-alive-expired"),
        "{text}"
    );
    assert!(
        text.contains("held                  1 objects            53248 bytes"),
        "{text}"
    );
    assert_eq!(store.objects().unwrap().objects.len(), 1);
    drop(held);
}

#[test]
fn a_pass_that_is_not_complete_fails() {
    let place = Place::new();
    let config = place.config("");
    let output = command(&["once"], &config);
    assert!(!output.status.success());
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("store cannot be used"), "{told}");
}

#[test]
fn a_configuration_is_checked_and_printed_whole() {
    let place = Place::new();
    let good = command(&["check"], &place.config("interval_secs = 7"));
    assert!(good.status.success());
    let printed: Value = serde_json::from_slice(&good.stdout).unwrap();
    assert_eq!(printed["interval_secs"], 7);
    assert_eq!(printed["policy"]["high_watermark_percent"], 95);
    let bad = command(&["check"], &place.config("interval_secs = 0"));
    assert!(!bad.status.success());
    assert!(bad.stdout.is_empty());
    let told = String::from_utf8(bad.stderr).unwrap();
    assert!(
        told.contains("configuration field `interval_secs`: expected 1 to 86400, found 0"),
        "{told}"
    );
}
