//! Commands on a store of which another process holds leases on files: none waits for it.

use crate::site::Site;
use tetris_test_support::lease::Lease;

#[test]
fn commands_name_leased_files_and_do_the_rest() {
    let site = Site::new();
    site.load(&site.fixture.model("m.safetensors", 1));
    site.load(&site.fixture.model("n.safetensors", 2));
    let store = site.fixture.store();
    let object = store.object_path(&store.objects().unwrap().objects[0].object);
    let manifest = store.manifests().unwrap()[0].id.to_string();
    let manifest = site.store_dir().join("manifests-v1").join(manifest);
    let leases = [Lease::write(&object), Lease::write(&manifest)];
    let names = |text: &str, file: &std::path::Path| text.contains(&file.display().to_string());

    let run = site.run(&["ls"]).expect(0);
    assert!(names(&run.stderr, &manifest), "{run:?}");
    assert!(run.stderr.contains("grep LEASE /proc/locks"), "{run:?}");
    assert_eq!(run.stdout.lines().count(), 2, "the other model: {run:?}");
    site.run(&["stat"]).expect(0);
    let run = site.run(&["verify"]).expect(1);
    assert!(run.stdout.starts_with("sound:"), "{run:?}");
    assert!(
        names(&run.stderr, &manifest) && names(&run.stderr, &object),
        "{run:?}"
    );
    assert!(run.stderr.contains("not checked"), "{run:?}");
    site.run(&["gc"]).expect(0);
    assert!(object.exists() && manifest.exists(), "held");
    assert_eq!(store.objects().unwrap().objects.len(), 1, "the others went");
    assert!(leases.iter().all(Lease::is_held));
    drop(leases);
    site.run(&["verify"]).expect(0);
}
