//! The daemon at work.

use nix::sys::signal::Signal;
use tetris_agent::Agent;
use tetris_store_layout::Store;

use crate::daemon::harness::{Daemon, Place, eventually};

const LISTEN: &str = "listen = \"127.0.0.1:0\"\n";

fn objects(store: &Store) -> usize {
    store.objects().unwrap().objects.len()
}

/// The room comes from what was used least recently, young or not, and the load ends in the store.
#[test]
fn a_load_into_a_full_store_gets_room_from_the_daemon() {
    let Some(place) = Place::of_size(4 << 20) else {
        return;
    };
    let store = place.store();
    let config = place.config(&format!(
        "{LISTEN}[policy]\nhigh_watermark_percent = 100\nlow_watermark_percent = 100\n[scrub]\nenabled = false\n"
    ));
    let daemon = Daemon::start(&config, &[]);
    eventually("the socket", || {
        store.daemon_socket().exists().then_some(())
    });
    let mapped = place.load(1_500_000, 1);
    drop(place.load(1_500_000, 2));
    assert_eq!(objects(&store), 2);
    let loaded = place.load(1_500_000, 3);
    assert!(
        loaded.report().private_reason.is_none(),
        "{:?}",
        loaded.report()
    );
    assert_eq!(objects(&store), 2);
    eventually("the request to be counted", || {
        let served = daemon.metric("tetris_room_requests_total{store=\"a\",outcome=\"served\"}");
        (served >= 1.0).then_some(())
    });
    let freed = "tetris_reclaimed_objects_total{store=\"a\",reason=\"pressure\"}";
    assert!(daemon.metric(freed) >= 1.0);
    // Now all is mapped: the load is private, right, and gives the reason.
    let agent = Agent::open_store(place.path("store")).unwrap();
    let private = agent.load(place.model_file(1_500_000, 4)).unwrap();
    let why = private.report().private_reason.clone().unwrap();
    assert!(why.contains("mapped"), "{why}");
    assert_eq!(private.tensor("w").unwrap().bytes()[5], 5 ^ 4);
    assert_eq!(objects(&store), 2);
    drop((mapped, loaded));
    assert!(daemon.stop().success());
    assert!(!store.daemon_socket().exists());
}

#[test]
fn files_can_run_out_as_well_as_bytes() {
    let Some(place) = Place::of_size(64 << 20) else {
        return;
    };
    let store = place.store();
    nix::mount::mount(
        None::<&str>,
        &place.path("store"),
        None::<&str>,
        nix::mount::MsFlags::MS_REMOUNT,
        Some("nr_inodes=40"),
    )
    .unwrap();
    let config = place.config(LISTEN);
    let daemon = Daemon::start(&config, &[]);
    eventually("the socket", || {
        store.daemon_socket().exists().then_some(())
    });
    for seed in 1..60 {
        let model = place.load(1000, seed);
        assert!(
            model.report().private_reason.is_none(),
            "{seed}: {:?}",
            model.report()
        );
    }
    assert!(daemon.metric("tetris_room_requests_total{store=\"a\",outcome=\"served\"}") >= 1.0);
    assert!(daemon.stop().success());
}

#[test]
fn hang_up_reads_the_configuration_again_and_a_wrong_one_changes_nothing() {
    let place = Place::new();
    let store = place.store();
    let config = place.config(LISTEN);
    let daemon = Daemon::start(&config, &[]);
    drop(place.load(50_000, 1));
    daemon.says("address=");
    place.config(&format!("{LISTEN}interval_secs = 0"));
    daemon.signal(Signal::SIGHUP);
    daemon.says("field `interval_secs`: expected 1 to 86400, found 0");
    assert_eq!(objects(&store), 1);
    place.config(&format!(
        "{LISTEN}interval_secs = 1\n[policy.store]\nkeep_alive_secs = 0\nexpiry = \"fixed\"\nexpire_after_secs = 0\n"
    ));
    daemon.signal(Signal::SIGHUP);
    eventually("the new policy", || (objects(&store) == 0).then_some(()));
    assert!(daemon.get("/healthz").starts_with("HTTP/1.1 200"));
    assert!(daemon.get("/readyz").starts_with("HTTP/1.1 200"));
    assert!(daemon.stop().success());
}

#[test]
fn the_inventory_follows_what_is_loaded() {
    let place = Place::new();
    let store = place.store();
    let daemon = Daemon::start(&place.config(LISTEN), &[]);
    daemon.says("address=");
    let model = place.load(50_000, 1);
    let manifest = store.manifests().unwrap()[0].id.to_string();
    // The kernel reports what is published: no need to wait for the interval of a minute.
    let inventory = eventually("the model in the inventory", || {
        let answer = daemon.get("/inventory");
        answer.contains(&manifest).then_some(answer)
    });
    assert!(
        inventory.contains("\"resident_bytes\":50000"),
        "{inventory}"
    );
    drop(model);
    assert!(daemon.stop().success());
}

#[test]
fn holders_are_counted_after_a_pass_and_the_status_says_that_all_are() {
    let place = Place::new();
    place.store();
    let config = place.config(&format!("{LISTEN}interval_secs = 1\n"));
    let daemon = Daemon::start(&config, &[]);
    daemon.says("address=");
    let model = place.load(50_000, 1);
    let again = place.load(50_000, 1);
    let status = eventually("two holders in the status", || {
        let answer = daemon.get("/status");
        answer.contains("\"holders\":2,").then_some(answer)
    });
    assert!(
        status.contains("\"holder_counts\":\"complete\""),
        "{status}"
    );
    assert_eq!(
        daemon.metric("tetris_holder_counts_complete").to_bits(),
        1.0_f64.to_bits()
    );
    drop((model, again));
    assert!(daemon.stop().success());
}

#[test]
fn what_is_learned_is_kept_at_the_end_and_a_killed_daemon_leaves_a_socket_that_the_next_one_replaces()
 {
    let place = Place::new();
    let store = place.store();
    let config = place.config(LISTEN);
    let daemon = Daemon::start(&config, &[]);
    eventually("the socket", || {
        store.daemon_socket().exists().then_some(())
    });
    drop(daemon);
    assert!(store.daemon_socket().exists());
    let daemon = Daemon::start(&config, &[]);
    let socket = store.daemon_socket();
    eventually("a live socket", || {
        std::os::unix::net::UnixStream::connect(&socket).ok()
    });
    assert!(daemon.stop().success());
    assert!(!socket.exists());
    assert!(place.path("store/reclaimer-state").exists());
}

#[test]
fn a_second_daemon_at_a_store_does_not_start_and_leaves_the_first_ones_socket_alone() {
    let place = Place::new();
    let store = place.store();
    let config = place.config(LISTEN);
    let first = Daemon::start(&config, &[]);
    eventually("the socket", || {
        store.daemon_socket().exists().then_some(())
    });
    let second = crate::daemon::harness::command(&["run"], &config);
    let told = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(4), "{told}");
    let at = place.path("store");
    let expected = format!(
        "store `a` at `{}`: another daemon, process {}, looks after it",
        at.display(),
        first.pid()
    );
    assert!(told.contains(&expected), "{told}");
    assert!(!told.contains("serving metrics"), "{told}");
    std::os::unix::net::UnixStream::connect(store.daemon_socket()).unwrap();
    // A dry run changes nothing.
    let dry = Daemon::start(&config, &["--dry-run"]);
    dry.says("address=");
    assert!(dry.stop().success());
    assert!(first.stop().success());
}

#[test]
fn a_limit_that_is_not_met_is_told_once_with_the_reason_and_the_remedy() {
    let place = Place::new();
    let _store = place.store();
    let config = place.config(&format!(
        "{LISTEN}interval_secs = 1\n[policy.store]\nkeep_alive_secs = 0\nlimit_bytes = \"16KiB\"\nrecord_files = 64\n"
    ));
    let loaded = place.load(50_000, 1);
    let daemon = Daemon::start(&config, &[]);
    let line = daemon.says("a limit is not met");
    for part in [
        "stores=\"a\"",
        "goal=\"limit\"",
        "reason=\"held\"",
        "raise limit_bytes",
    ] {
        assert!(line.contains(part), "{line}");
    }
    eventually("three more passes", || {
        let passes = daemon.metric("tetris_pass_duration_seconds_count{trigger=\"interval\"}");
        (passes >= 3.0).then_some(())
    });
    assert_eq!(daemon.log().matches("a limit is not met").count(), 1);
    drop(loaded);
    daemon.says("the limit is met again");
    assert!(daemon.stop().success());
}

#[test]
fn an_error_is_told_even_where_the_log_is_off() {
    let place = Place::new();
    let config = place.config("interval_secs = 0");
    let output = crate::daemon::harness::command(&["run", "--log", "off"], &config);
    assert_eq!(output.status.code(), Some(3));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.starts_with("error: configuration `"), "{told}");
}

#[test]
fn a_log_filter_that_cannot_be_read_is_an_error_that_names_its_origin() {
    let place = Place::new();
    let config = place.config("");
    for filter in ["inof", "nonsense=foo", "a=b=c"] {
        let output = crate::daemon::harness::command(&["check", "--log", filter], &config);
        assert_eq!(output.status.code(), Some(2));
        let told = String::from_utf8(output.stderr).unwrap();
        let expected = format!("error: --log: cannot read the log filter `{filter}`");
        assert!(told.starts_with(&expected), "{told}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_dry_run_frees_nothing_and_answers_no_agent() {
    let place = Place::new();
    let store = place.store();
    let config = place.config(&format!(
        "{LISTEN}interval_secs = 1\n[policy.store]\nkeep_alive_secs = 0\nexpiry = \"fixed\"\nexpire_after_secs = 0\n"
    ));
    drop(place.load(50_000, 1));
    let daemon = Daemon::start(&config, &["--dry-run"]);
    let line = daemon.says("would be freed");
    assert!(line.contains("objects=1"), "{line}");
    assert_eq!(objects(&store), 1);
    assert!(!store.daemon_socket().exists());
    assert!(daemon.stop().success());
    assert!(!place.path("store/reclaimer-state").exists());
}

#[test]
fn an_address_in_use_ends_the_daemon_with_the_reason() {
    let place = Place::new();
    place.store();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap();
    let config = place.config(&format!("listen = \"{listen}\""));
    let output = crate::daemon::harness::command(&["run"], &config);
    assert!(!output.status.success());
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(
        told.contains(&format!("cannot listen on {listen} (field `listen`)")),
        "{told}"
    );
}
