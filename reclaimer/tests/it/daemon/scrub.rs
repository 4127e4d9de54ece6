//! Damaged objects are found, quarantined and reported; the next load publishes them anew.

use std::os::unix::fs::{FileExt, PermissionsExt};

use tetris_store_layout::Access;

use crate::daemon::harness::{Daemon, Place, eventually};

/// Changes a byte of an object, as a fault of the memory would.
fn damage(path: &std::path::Path) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o644)).unwrap();
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(&[0xff], 12_345).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o444)).unwrap();
}

#[test]
fn a_damaged_object_is_set_aside_its_holders_are_told_and_the_next_load_publishes_it_anew() {
    for depth in ["crc", "full"] {
        let place = Place::new();
        let store = place.store();
        drop(place.load(50_000, 2));
        let holder = place.load(50_000, 1);
        let holders = tetris_store_layout::Holders::read().unwrap();
        let objects = store.objects().unwrap().objects;
        let object = objects
            .iter()
            .find(|entry| holders.of(entry) > 0)
            .unwrap()
            .object;
        damage(&store.object_path(&object));
        let config = place.config(&format!(
            "listen = \"127.0.0.1:0\"\n[scrub]\nbytes_per_sec = 10000000\ndepth = \"{depth}\"\n"
        ));
        let daemon = Daemon::start(&config, &[]);
        let line = daemon.says("damaged object quarantined");
        assert!(line.contains(&object.id.to_string()), "{line}");
        assert!(line.contains("holders=1"), "{line}");
        assert!(
            line.contains(&format!("processes=[{}]", std::process::id())),
            "{line}"
        );
        assert!(store.map(&object, Access::ReadOnly).unwrap().is_none());
        assert_eq!(store.quarantined().unwrap().objects.len(), 1);
        eventually("the count", || {
            let counted = "tetris_scrubbed_objects_total{store=\"a\",result=\"quarantined\"}";
            (daemon.metric(counted) >= 1.0).then_some(())
        });
        // Holders keep their pages; a new load gets the right bytes.
        let mended = place.load(50_000, 1);
        assert!(mended.report().private_reason.is_none());
        assert_eq!(
            mended.tensor("w").unwrap().bytes()[12_345],
            (12_345 % 251) as u8 ^ 1
        );
        assert_eq!(store.objects().unwrap().objects.len(), 2);
        drop(holder);
        assert!(daemon.stop().success());
    }
}
