//! Plans for certificates, by the secret's contents and the time.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use tetris_webhook::certificates::{Action, Contents, Flaw, apply, create, fields, plan};

use crate::served::replica::{DAY, SERVER, START};

pub type Data = BTreeMap<String, ByteString>;

fn planned(now: i64, data: &Data) -> Action {
    plan(now, &Contents::read(data), SERVER).action
}

fn applied(now: i64, data: &Data) -> Data {
    let contents = Contents::read(data);
    let action = plan(now, &contents, SERVER).action;
    apply(action, now, contents, SERVER).unwrap().unwrap()
}

fn with(data: &Data, field: &str, value: &[u8]) -> Data {
    let mut data = data.clone();
    data.insert(field.to_owned(), ByteString(value.to_owned()));
    data
}

#[test]
fn what_was_just_made_is_kept_until_two_thirds_of_its_life() {
    let data = create(START, SERVER).unwrap();
    for (days, expected) in [
        (0, Action::Keep),
        (59, Action::Keep),
        (60, Action::Renew),
        (89, Action::Renew),
        (91, Action::Renew),
    ] {
        assert_eq!(planned(START + days * DAY, &data), expected, "{days}");
    }
    for (days, expected) in [
        (243, Action::Renew),
        (244, Action::RenewCa),
        (364, Action::RenewCa),
        (366, Action::Create),
    ] {
        assert_eq!(planned(START + days * DAY, &data), expected, "{days}");
    }
}

#[test]
fn clocks_that_are_a_little_behind_keep_it_and_others_make_it_anew() {
    let data = create(START, SERVER).unwrap();
    assert_eq!(planned(START - 59 * 60, &data), Action::Keep);
    assert_eq!(planned(START - 2 * 60 * 60, &data), Action::Create);
}

#[test]
fn the_old_authority_signs_once_more_when_a_new_one_comes() {
    let first = create(START, SERVER).unwrap();
    let day = START + 244 * DAY;
    let second = applied(day, &first);
    assert_eq!(planned(day, &second), Action::Keep);
    assert_ne!(second[fields::CA_KEY], first[fields::CA_KEY]);
    let authorities = |data: &Data| Contents::read(data).authorities.unwrap().certificates;
    assert_eq!(authorities(&second).len(), 2);
    assert_eq!(authorities(&second)[1], authorities(&first)[0]);
    // Signed by the old one: good without the new one.
    let mut without = second.clone();
    without.insert(
        fields::CA_CERTIFICATES.to_owned(),
        first[fields::CA_CERTIFICATES].clone(),
    );
    without.insert(fields::CA_KEY.to_owned(), first[fields::CA_KEY].clone());
    assert_eq!(
        plan(START + 200 * DAY, &Contents::read(&first), SERVER).action,
        Action::Renew
    );
    let leaf = Contents::read(&without).leaf.unwrap();
    assert!(
        leaf.validity.not_after
            <= Contents::read(&first)
                .authorities
                .unwrap()
                .validity
                .not_after
    );
    // The next one is signed by the new authority, and the old one stays until it expires.
    let third = applied(day + 60 * DAY, &second);
    assert_eq!(authorities(&third), authorities(&second));
    let fourth = applied(day + 125 * DAY, &third);
    assert_eq!(authorities(&fourth), authorities(&second)[..1]);
}

#[test]
fn garbage_in_an_authority_makes_all_of_it_anew() {
    let good = create(START, SERVER).unwrap();
    let other = create(START, SERVER).unwrap();
    for field in [fields::CA_CERTIFICATES, fields::CA_KEY] {
        let leaf = &good[fields::CERTIFICATE].0;
        for garbage in [
            &b""[..],
            b"garbage",
            b"\xff\xfe",
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            leaf,
        ] {
            let contents = Contents::read(&with(&good, field, garbage));
            let plan = plan(START, &contents, SERVER);
            assert_eq!(plan.action, Action::Create, "{field}: {garbage:?}");
            assert!(plan.reason.unwrap().to_string().contains(field));
        }
        assert_eq!(
            planned(START, &with(&good, field, &other[field].0)),
            Action::Create
        );
    }
    let many = good[fields::CA_CERTIFICATES].0.repeat(9);
    assert_eq!(
        planned(START, &with(&good, fields::CA_CERTIFICATES, &many)),
        Action::Create
    );
    assert_eq!(planned(START, &Data::new()), Action::Create);
}

#[test]
fn garbage_in_the_serving_certificate_makes_that_anew_alone() {
    let good = create(START, SERVER).unwrap();
    let other = create(START, SERVER).unwrap();
    for field in [fields::CERTIFICATE, fields::KEY] {
        for garbage in [
            &b""[..],
            b"garbage",
            &other[field].0,
            &good[fields::CA_CERTIFICATES].0,
        ] {
            let bad = with(&good, field, garbage);
            assert_eq!(planned(START, &bad), Action::Renew, "{field}");
            let mended = applied(START, &bad);
            assert_eq!(
                mended[fields::CA_CERTIFICATES],
                good[fields::CA_CERTIFICATES]
            );
            assert_eq!(planned(START, &mended), Action::Keep);
        }
    }
    // A pair that fits, of another authority.
    let pair = with(
        &with(&good, fields::CERTIFICATE, &other[fields::CERTIFICATE].0),
        fields::KEY,
        &other[fields::KEY].0,
    );
    assert_eq!(planned(START, &pair), Action::Renew);
}

#[test]
fn a_certificate_for_another_name_is_made_anew() {
    let data = create(START, "tetris-webhook.other.svc").unwrap();
    let plan = plan(START, &Contents::read(&data), SERVER);
    assert_eq!(plan.action, Action::Renew);
    assert!(matches!(
        plan.reason,
        Some(Flaw::Invalid {
            field: "tls.crt",
            ..
        })
    ));
}

#[test]
fn keys_are_not_in_what_is_printed() {
    let data = create(START, SERVER).unwrap();
    let printed = format!("{:?}", Contents::read(&data));
    let key = String::from_utf8(data[fields::CA_KEY].0.clone()).unwrap();
    let line = key.lines().nth(1).unwrap();
    assert!(!printed.contains(line));
    assert!(printed.len() < 100_000);
}
