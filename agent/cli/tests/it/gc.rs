//! `gc`.

use crate::site::Site;

#[test]
fn a_pass_frees_what_nobody_references_as_far_as_it_is_asked() {
    let site = Site::new();
    let model = site.load(&site.fixture.model("m.safetensors", 1));
    let objects = model["models"][0]["objects"].clone();
    let young = site.json(&["gc", "--older-than", "1h"]);
    assert_eq!(
        (&young["freed_objects"], &young["kept_objects"]),
        (&0.into(), &objects)
    );
    let dry = site.json(&["gc", "--dry-run"]);
    assert_eq!(dry["freed_objects"], objects);
    assert_eq!(site.json(&["stat"])["objects"], objects, "only said");
    let some = site.json(&["gc", "--free", "1"]);
    assert_eq!(some["freed_objects"], 1);
    let kept = site.fixture.model("held.safetensors", 2);
    let loaded = site.fixture.agent.load(&kept).unwrap();
    let text = site.run(&["gc"]).expect(0).stdout;
    assert!(
        text.starts_with("freed") && text.contains("in use"),
        "{text}"
    );
    assert_eq!(site.json(&["stat"])["objects"], loaded.objects().count());
    drop(loaded);
    site.run(&["gc"]).expect(0);
    let stat = site.json(&["stat"]);
    assert_eq!(
        (&stat["objects"], &stat["manifests"]),
        (&0.into(), &0.into())
    );
}
