//! Reports to the service manager, on the socket that systemd would give.

use std::ffi::OsStr;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::harness::{Daemon, Place};

/// Microseconds of the watchdog: half of it passes between two heartbeats.
const WATCHDOG: &str = "200000";

/// The socket of a service manager.
struct Manager(UnixDatagram);

impl Manager {
    fn next(&self) -> String {
        let mut bytes = [0; 4096];
        let length = self.0.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    /// The next message that is no heartbeat and no mere line of status.
    fn next_state(&self) -> String {
        loop {
            let message = self.next();
            if message != "WATCHDOG=1" && !message.starts_with("STATUS=") {
                return message;
            }
        }
    }

    /// Waits for a heartbeat.
    fn heartbeat(&self) {
        while self.next() != "WATCHDOG=1" {}
    }
}

#[test]
fn the_service_manager_learns_of_readiness_progress_reloads_and_the_end() {
    let place = Place::new();
    place.store();
    let config = place.config("");
    let path = place.path("notify");
    let manager = Manager(UnixDatagram::bind(&path).unwrap());
    manager
        .0
        .set_read_timeout(Some(Duration::from_mins(1)))
        .unwrap();
    let variables = [
        ("NOTIFY_SOCKET", path.as_os_str()),
        ("WATCHDOG_USEC", OsStr::new(WATCHDOG)),
    ];
    let daemon = Daemon::start_with(&config, &[], &variables);
    let ready = manager.next_state();
    assert!(ready.starts_with("READY=1\nSTATUS=stores: 1; "), "{ready}");
    // Ready means that loads are served.
    let socket = place.store().daemon_socket();
    std::os::unix::net::UnixStream::connect(socket).unwrap();
    manager.heartbeat();
    manager.heartbeat();

    daemon.signal(Signal::SIGHUP);
    assert_eq!(manager.next_state(), "RELOADING=1");
    assert_eq!(manager.next_state(), "READY=1");
    place.config("interval_secs = 0");
    daemon.signal(Signal::SIGHUP);
    assert_eq!(manager.next_state(), "RELOADING=1");
    let refused = manager.next_state();
    assert!(
        refused.contains("READY=1\nSTATUS=the new configuration is wrong"),
        "{refused}"
    );

    // A process that stands still sends nothing, and goes on when it is continued.
    daemon.signal(Signal::SIGSTOP);
    let silence = Duration::from_millis(500);
    manager.0.set_read_timeout(Some(silence)).unwrap();
    let mut bytes = [0; 4096];
    while manager.0.recv(&mut bytes).is_ok() {}
    manager
        .0
        .set_read_timeout(Some(Duration::from_mins(1)))
        .unwrap();
    daemon.signal(Signal::SIGCONT);
    manager.heartbeat();

    daemon.signal(Signal::SIGTERM);
    let stopping = manager.next_state();
    assert!(stopping.starts_with("STOPPING=1"), "{stopping}");
    assert!(daemon.stop().success());
}

#[test]
fn an_address_that_cannot_be_used_costs_the_reports_alone() {
    let place = Place::new();
    let store = place.store();
    let config = place.config("");
    let variables = [("NOTIFY_SOCKET", OsStr::new("elsewhere"))];
    let daemon = Daemon::start_with(&config, &[], &variables);
    daemon.says("the service manager gets no reports");
    super::harness::eventually("the socket", || {
        store.daemon_socket().exists().then_some(())
    });
    assert!(daemon.stop().success());
}

#[test]
fn a_store_that_cannot_be_used_is_in_the_status() {
    let place = Place::new();
    let config = place.config("");
    let path = place.path("notify");
    let manager = Manager(UnixDatagram::bind(&path).unwrap());
    manager
        .0
        .set_read_timeout(Some(Duration::from_mins(1)))
        .unwrap();
    let variables = [("NOTIFY_SOCKET", path.as_os_str())];
    let daemon = Daemon::start_with(&config, &[], &variables);
    let ready = manager.next_state();
    assert!(ready.starts_with("READY=1\nSTATUS=store a: "), "{ready}");
    assert!(daemon.stop().success());
}
