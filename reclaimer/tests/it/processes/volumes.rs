//! Volumes of pods, with the daemon's other processes and without them.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tetris_agent::Agent;
use tetris_agent::daemon::{DaemonClient, DaemonError};
use tetris_agent::store_location::StoreLocation;
use tetris_cli::doctor::{Status as Health, Subjects, diagnose};
use tetris_store_layout::{Access, CreateOptions, SOCKET_USER, Store};
use tetris_wire::BoundSocket;
use tetris_wire::daemon::RoomReason;
use tonic::Code;

use crate::csi::calls::{expect_read_only, mounts};
use crate::csi::fixture::PATIENCE;
use crate::processes::node::{MIB, Node};
use crate::running::BROKER_USER;

fn size_of(path: &Path) -> u64 {
    let stat = nix::sys::statvfs::statvfs(path).unwrap();
    stat.blocks() * stat.fragment_size()
}

/// Longest wait of a volume's publication for the daemon's socket.
const SOCKET_WAIT: Duration = Duration::from_secs(1);

fn is_socket_of_pods(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.uid() == SOCKET_USER)
}

/// Loads the file through a pod's mount, with the reason if it is private.
fn load(target: &Path, file: &Path) -> (Vec<u8>, Option<String>) {
    let model = Agent::open_store(target).unwrap().load(file).unwrap();
    let reason = model.report().private_reason.as_ref();
    let reason = reason.map(|reason| format!("{reason:?}"));
    (model.tensor("w").unwrap().bytes().to_vec(), reason)
}

#[test]
fn pods_share_through_the_volume_and_restarts_disturb_nobody() {
    let Some(mut node) = Node::running() else {
        return;
    };
    let stores = node.stores();
    assert_eq!(size_of(&stores), 64 * MIB, "the limit less the reserve");
    node.answers_readyz("not registered");
    node.register();
    node.answers_readyz("HTTP/1.1 200");
    let (pod, other) = (node.host.target("pod"), node.host.target("other"));
    let begun = Instant::now();
    node.publish(&pod, "blue").unwrap();
    let socket = node.store("blue").join("daemon");
    // A pod that starts at once finds the daemon listening, unless a slow machine used up the wait for it.
    assert!(is_socket_of_pods(&socket) || begun.elapsed() >= SOCKET_WAIT);
    node.processes
        .eventually("the daemon listens", |_| is_socket_of_pods(&socket));
    expect_read_only(&pod);
    // Root of a pod is not the node's root.
    let outcome = DaemonClient::new(pod.join("daemon"), PATIENCE).make_room(4096, 1);
    let Err(DaemonError::RoomRefused(refusal)) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(refusal.reason, RoomReason::NOT_ALLOWED);
    // One volume, of the kind that this kernel has.
    let kinds = ["\"idmapped\":1,\"plain\":0", "\"idmapped\":0,\"plain\":1"];
    node.processes
        .eventually("the count of volumes", |running| {
            let status = running.page("broker", "/status");
            kinds.iter().any(|kind| status.contains(kind))
        });
    // As the pod's user sees it, who names no store.
    let mut location = StoreLocation::named(&pod);
    location.named = false;
    let diagnosis = diagnose(&location, &Subjects::default());
    let section = &diagnosis.sections[0];
    assert!(section.status() < Health::Failure, "{section:?}");
    for name in ["owner", "publish"] {
        let check = section.checks.iter().find(|check| check.name == name);
        assert_eq!(check.unwrap().status, Health::Ok, "{check:?}");
    }
    let file = node.model_file();
    let agent = Agent::open_store(&pod).unwrap();
    let model = agent.load(&file).unwrap();
    let store = Store::open(node.store("blue")).unwrap();
    assert_eq!(store.owner().unwrap(), BROKER_USER);
    assert_eq!(store.usage().unwrap().capacity, 64 * MIB);
    let objects = || fs::read_dir(store.objects_dir()).unwrap().count();
    assert_eq!(
        objects(),
        1,
        "the broker published it: {}",
        node.processes.logs()
    );

    for name in ["broker", "cluster", "volumes"] {
        node.processes.stop(name);
    }
    assert!(size_of(&stores) == 64 * MIB && objects() == 1);
    for name in ["cluster", "volumes", "broker"] {
        node.start(name);
    }
    node.serves();
    node.processes
        .eventually("the store is looked after again", |running| {
            UnixStream::connect(&socket).is_ok()
                && is_socket_of_pods(&socket)
                && running.log("volumes").contains("tmpfs adopted")
        });
    node.publish(&other, "blue").unwrap();
    let again = Agent::open_store(&other).unwrap().load(&file).unwrap();
    let bytes = |model: &tetris_agent::Model| model.tensor("w").unwrap().bytes().to_vec();
    assert!(bytes(&model) == bytes(&again) && objects() == 1);

    node.configure("size_bytes = 33554432");
    node.processes.signal("volumes", Signal::SIGHUP);
    node.processes
        .eventually("it is as large as configured", |_| {
            size_of(&stores) == 32 * MIB
        });
    node.configure("size_bytes = 2097152");
    node.processes.signal("volumes", Signal::SIGHUP);
    node.processes
        .eventually("what is in use stays", |running| {
            running.log("volumes").contains("so it cannot shrink")
        });
    assert_eq!((size_of(&stores), objects()), (32 * MIB, 1));
    node.unpublish(&pod);
    node.unpublish(&other);
    drop((model, again));
    node.processes.stop_all();
}

#[test]
fn with_its_namespace_a_store_goes_and_its_sockets_and_series_and_a_pod_keeps_what_it_maps() {
    let Some(mut node) = Node::running() else {
        return;
    };
    let target = node.host.target("pod");
    node.publish(&target, "blue").unwrap();
    let file = node.model_file();
    let model = Agent::open_store(&target).unwrap().load(&file).unwrap();
    let weights = model.tensor("w").unwrap().bytes().to_vec();
    let directory = node.store("blue");
    let name = directory.file_name().unwrap().to_str().unwrap().to_owned();
    for (path, text) in [
        ("/metrics", format!("store=\"{name}\"")),
        ("/status", format!("\"name\":\"{name}\"")),
        ("/inventory/objects", "\"name\":\"blue\"".to_owned()),
    ] {
        node.processes
            .eventually(path, |running| running.page("broker", path).contains(&text));
    }
    node.api.remove("blue");
    node.unpublish(&target);
    // The volume is gone, and the process still maps the model.
    node.api.make("red");
    let other = node.host.target("other");
    node.publish(&other, "red").unwrap();
    assert!(directory.exists() && model.tensor("w").unwrap().bytes() == weights);
    drop(model);
    node.unpublish(&other);
    // What a list that lagged did not say is asked for again after a minute, or a volume's end.
    let again = node.host.target("again");
    let mut rounds = 0;
    while directory.exists() {
        rounds += 1;
        assert!(rounds < 600, "{}", node.processes.logs());
        node.publish(&again, "red").unwrap();
        node.unpublish(&again);
        std::thread::sleep(Duration::from_millis(100));
    }
    for path in ["/metrics", "/status", "/inventory/objects"] {
        let gone = if path.starts_with("/inventory") {
            "\"blue\""
        } else {
            &name
        };
        node.processes.eventually(path, |running| {
            let page = running.page("broker", path);
            page.contains("200 OK") && !page.contains(gone)
        });
    }
    let left: Vec<_> = fs::read_dir(node.stores()).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    let logs = node.processes.logs();
    assert!(!logs.contains(" ERROR "), "{logs}");
    node.processes.stop_all();
}

#[test]
fn without_a_broker_volumes_come_and_go_and_loads_are_private_until_it_is_back() {
    let Some(mut node) = Node::new() else { return };
    node.start("volumes");
    node.start("cluster");
    node.serves();
    let file = node.model_file();
    // The namespace is called after what became of the broker.
    for namespace in ["absent", "stopped", "killed"] {
        match namespace {
            "stopped" => node.processes.signal("broker", Signal::SIGSTOP),
            "killed" => node.processes.kill("broker"),
            _ => assert!(!node.processes.is_running("broker")),
        }
        let [first, second] =
            ["first", "second"].map(|pod| node.host.target(&format!("{namespace}-{pod}")));
        node.publish(&first, namespace).unwrap();
        node.publish(&second, namespace).unwrap();
        expect_read_only(&first);
        node.unpublish(&second);
        let (private, reason) = load(&first, &file);
        assert!(reason.is_some(), "{namespace}");
        assert!(
            node.processes
                .log("volumes")
                .contains("loads there are private until it does")
        );
        match namespace {
            "stopped" => node.processes.signal("broker", Signal::SIGCONT),
            _ => node.start("broker"),
        }
        let socket = node.store(namespace).join("daemon");
        node.processes.eventually("the broker is back", |_| {
            is_socket_of_pods(&socket) && UnixStream::connect(first.join("daemon")).is_ok()
        });
        let (brokered, reason) = load(&first, &file);
        assert_eq!(reason, None, "{namespace}: {}", node.processes.logs());
        assert!(private == brokered);
        node.unpublish(&first);
        assert_eq!(mounts(&first).len(), 0);
    }
    node.processes.stop_all();
}

#[test]
fn a_pod_that_runs_reaches_the_socket_of_a_broker_that_was_killed_and_started_again() {
    let Some(mut node) = Node::running() else {
        return;
    };
    let pod = node.host.target("pod");
    node.publish(&pod, "blue").unwrap();
    let inode = || fs::metadata(pod.join("daemon")).map(|found| found.ino());
    for _ in 0..3 {
        let before = inode().unwrap();
        UnixStream::connect(pod.join("daemon")).unwrap();
        node.processes.kill("broker");
        assert!(UnixStream::connect(pod.join("daemon")).is_err());
        node.start("broker");
        node.processes.eventually("the new socket", |_| {
            inode().is_ok_and(|now| now != before)
                && UnixStream::connect(pod.join("daemon")).is_ok()
        });
    }
    node.unpublish(&pod);
    node.processes.stop_all();
}

#[test]
fn a_tmpfs_of_root_is_handed_over_and_a_mapped_object_stays_the_brokers_to_free() {
    let Some(mut node) = Node::new() else { return };
    // As a daemon that ran as root left it.
    let stores = node.stores();
    tetris_test_support::mounts::tmpfs(&stores, "size=64m");
    let root = node.store("blue");
    let old = Store::create(&root, &CreateOptions::default()).unwrap();
    let published = old.publish(&[7; 9000], Access::ReadOnly).unwrap();
    drop(BoundSocket::bind(&old.daemon_socket()).unwrap());
    let sockets = Some(SOCKET_USER);
    std::os::unix::fs::lchown(old.daemon_socket(), sockets, sockets).unwrap();
    for name in ["volumes", "cluster", "broker"] {
        node.start(name);
    }
    node.serves();
    let pod = node.host.target("pod");
    node.publish(&pod, "blue").unwrap();
    assert_eq!(&published.mapping[..], &[7; 9000]);
    let mapped = Store::open(&pod).unwrap();
    let mapped = mapped.map(&published.object, Access::ReadOnly).unwrap();
    assert_eq!(&mapped.unwrap()[..], &[7; 9000]);
    let object = fs::metadata(old.object_path(&published.object)).unwrap();
    assert_eq!((object.uid(), object.gid()), (BROKER_USER, BROKER_USER));
    assert_eq!(old.owner().unwrap(), BROKER_USER);
    assert!(node.processes.log("volumes").contains("handed over"));
    let socket = root.join("daemon");
    node.processes.eventually("the broker's socket", |_| {
        is_socket_of_pods(&socket) && UnixStream::connect(pod.join("daemon")).is_ok()
    });
    // A pod's load is published beside it.
    let (_, reason) = load(&pod, &node.model_file());
    assert_eq!(reason, None, "{}", node.processes.logs());
    node.unpublish(&pod);
    node.processes.stop_all();
}

#[test]
fn the_stores_owner_gets_no_file_but_a_socket_given_away() {
    let Some(mut node) = Node::new() else { return };
    node.start("volumes");
    node.start("cluster");
    node.serves();
    let pod = node.host.target("pod");
    node.publish(&pod, "blue").unwrap();
    let directory = node.store("blue");
    let elsewhere = node.host.kubelet().with_file_name("secret");
    fs::write(&elsewhere, "root's").unwrap();
    let foreign = node.host.kubelet().with_file_name("socket");
    let _listener = UnixListener::bind(&foreign).unwrap();
    let user = Some(BROKER_USER);
    let bind = |path: &Path| {
        let listener = UnixListener::bind(path).unwrap();
        std::os::unix::fs::lchown(path, user, user).unwrap();
        listener
    };
    // Each in turn has the name of the daemon's socket; what is given shows that it was looked at.
    let (daemon, gpu) = (directory.join("daemon"), directory.join("gpu"));
    let make: [(&str, &dyn Fn()); 5] = [
        ("a link to a file", &|| {
            symlink(&elsewhere, &daemon).unwrap();
        }),
        ("a link to a socket", &|| {
            symlink(&foreign, &daemon).unwrap();
        }),
        ("a file", &|| fs::write(&daemon, "x").unwrap()),
        ("a directory", &|| fs::create_dir(&daemon).unwrap()),
        ("a pipe", &|| {
            let made = Command::new("mkfifo").arg(&daemon).status().unwrap();
            assert!(made.success());
        }),
    ];
    for (what, make) in make {
        make();
        if !fs::symlink_metadata(&daemon).unwrap().is_symlink() {
            std::os::unix::fs::lchown(&daemon, user, user).unwrap();
        }
        let _gpu = bind(&gpu);
        node.processes
            .eventually("a look", |_| is_socket_of_pods(&gpu));
        assert!(!is_socket_of_pods(&daemon), "{what}");
        for path in [&elsewhere, &foreign] {
            assert_eq!(fs::metadata(path).unwrap().uid(), 0, "{what}");
        }
        let _removed = fs::remove_file(&daemon).or_else(|_| fs::remove_dir(&daemon));
        fs::remove_file(&gpu).unwrap();
    }
    // Another user's socket is not the stores' owner's to give.
    let _root = UnixListener::bind(&daemon).unwrap();
    let _gpu = bind(&gpu);
    node.processes
        .eventually("a look", |_| is_socket_of_pods(&gpu));
    assert_eq!(fs::metadata(&daemon).unwrap().uid(), 0);
    // A store that is a link to another directory has no sockets.
    let trap = node.host.kubelet().with_file_name("trap");
    fs::create_dir(&trap).unwrap();
    let _trapped = bind(&trap.join("daemon"));
    symlink(&trap, node.store("red")).unwrap();
    fs::remove_file(&gpu).unwrap();
    let _gpu = bind(&gpu);
    node.processes
        .eventually("a look", |_| is_socket_of_pods(&gpu));
    assert_eq!(
        fs::metadata(trap.join("daemon")).unwrap().uid(),
        BROKER_USER
    );
    node.unpublish(&pod);
    node.processes.stop_all();
}

#[test]
fn without_the_clusters_process_new_pods_wait_with_a_next_step_and_others_keep_their_volumes() {
    let Some(mut node) = Node::running() else {
        return;
    };
    let (there, new) = (node.host.target("there"), node.host.target("new"));
    node.publish(&there, "blue").unwrap();
    node.processes.kill("cluster");
    let error = node.publish(&new, "blue").unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    for expected in ["pod `blue/server-0`", "container `cluster`"] {
        assert!(error.message().contains(expected), "{error}");
    }
    node.publish(&there, "blue").unwrap();
    assert_eq!(mounts(&there).len(), 1);
    node.start("cluster");
    node.serves();
    node.publish(&new, "blue").unwrap();
    node.unpublish(&there);
    node.unpublish(&new);
    node.processes.stop_all();
}

#[test]
fn a_pass_by_hand_mounts_nothing_and_serves_nobody() {
    let Some(node) = Node::new() else { return };
    node.configure("size_bytes = 8388608");
    let output = Command::new(env!("CARGO_BIN_EXE_tetris-node"))
        .args(["once", "--config"])
        .arg(node.host.kubelet().with_file_name("node.toml"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(!node.stores().exists());
    assert!(!node.host.config().registration_socket().exists());
}

#[test]
fn a_daemon_in_one_process_gives_no_volumes_and_names_those_that_do() {
    let Some(node) = Node::new() else { return };
    node.configure("size_bytes = 8388608");
    let output = Command::new(env!("CARGO_BIN_EXE_tetris-node"))
        .args(["run", "--config"])
        .arg(node.host.kubelet().with_file_name("node.toml"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(
        log.contains("field `csi`") && log.contains("`tetris-node volumes`"),
        "{log}"
    );
    assert!(!node.stores().exists());
}

#[test]
fn a_mount_that_cannot_be_is_the_end_with_the_reason() {
    let Some(mut node) = Node::new() else { return };
    let stores = node.stores();
    fs::create_dir(&stores).unwrap();
    fs::write(stores.join("file"), "somebody's").unwrap();
    node.start("volumes");
    assert!(!node.processes.ended("volumes").success());
    let log = node.processes.log("volumes");
    assert!(log.contains("the directory is not empty"), "{log}");
    assert_eq!(fs::read(stores.join("file")).unwrap(), b"somebody's");
}
