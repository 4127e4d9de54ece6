//! Messages to the service manager that started this process: systemd, or another that sets
//! `NOTIFY_SOCKET` (sd_notify(3)).

use std::env;
use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Address of the service manager's socket.
const SOCKET: &str = "NOTIFY_SOCKET";
/// Microseconds within which the service manager expects a heartbeat.
const WATCHDOG: &str = "WATCHDOG_USEC";
/// The process that the heartbeat is expected of.
const WATCHDOG_PROCESS: &str = "WATCHDOG_PID";

/// A message to the service manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message<'a> {
    /// The start is complete, or the configuration was read again.
    Ready,
    /// The configuration is being read again; [`Message::Ready`] ends that.
    Reloading,
    /// The service ends.
    Stopping,
    /// A heartbeat: the service makes progress.
    Alive,
    /// A line for administrators, which `systemctl status` shows.
    Status(&'a str),
}

impl Message<'_> {
    /// Its line in the protocol.
    fn line(self) -> String {
        match self {
            Self::Ready => "READY=1".to_owned(),
            Self::Reloading => "RELOADING=1".to_owned(),
            Self::Stopping => "STOPPING=1".to_owned(),
            Self::Alive => "WATCHDOG=1".to_owned(),
            // A line feed would begin another message.
            Self::Status(text) => format!("STATUS={}", text.replace(['\n', '\r'], " ")),
        }
    }
}

/// The service manager that started this process.
#[derive(Debug)]
pub struct ServiceManager {
    socket: UnixDatagram,
    address: SocketAddr,
    watchdog: Option<Duration>,
}

impl ServiceManager {
    /// The one that the environment names; `None` if none wants messages.
    ///
    /// # Errors
    ///
    /// Fails if `NOTIFY_SOCKET` is neither an absolute path nor `@` and a name, or if the process
    /// may have no socket.
    pub fn from_env() -> io::Result<Option<Self>> {
        let named = env::var_os(SOCKET).filter(|address| !address.is_empty());
        let Some(address) = named else {
            return Ok(None);
        };
        let text = |name| env::var(name).ok();
        let watchdog = watchdog(
            text(WATCHDOG).as_deref(),
            text(WATCHDOG_PROCESS).as_deref(),
            std::process::id(),
        );
        Self::new(&address, watchdog).map(Some)
    }

    /// The one that listens at `address`, in the notation of `NOTIFY_SOCKET`, and expects a
    /// heartbeat within `watchdog`.
    ///
    /// # Errors
    ///
    /// As those of [`ServiceManager::from_env`].
    pub fn new(address: &OsStr, watchdog: Option<Duration>) -> io::Result<Self> {
        let address = match address.as_bytes() {
            [b'/', ..] => SocketAddr::from_pathname(address)?,
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            _ => {
                let found = address.display();
                let message = format!(
                    "{SOCKET}: expected an absolute path or `@` and a name, found `{found}`"
                );
                return Err(io::Error::new(ErrorKind::InvalidInput, message));
            }
        };
        let socket = UnixDatagram::unbound()?;
        // A service manager that hangs must not take the service with it.
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            address,
            watchdog,
        })
    }

    /// Longest time between two heartbeats, after which the service manager ends this process.
    /// `None` if it expects none.
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// Sends messages, all or none.
    ///
    /// # Errors
    ///
    /// Fails if the service manager is gone or takes no more messages. Nothing depends on that here.
    pub fn send(&self, messages: &[Message<'_>]) -> io::Result<()> {
        let lines: Vec<String> = messages.iter().map(|message| message.line()).collect();
        let sent = self
            .socket
            .send_to_addr(lines.join("\n").as_bytes(), &self.address);
        sent.map(drop)
    }
}

/// The period of the watchdog, if it is meant for the process `own`.
fn watchdog(microseconds: Option<&str>, process: Option<&str>, own: u32) -> Option<Duration> {
    if process.is_some_and(|process| process != own.to_string()) {
        return None;
    }
    let microseconds = microseconds?.parse().ok().filter(|found| *found > 0)?;
    Some(Duration::from_micros(microseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 4096];
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    #[test]
    fn messages_arrive_at_a_path_in_one_datagram() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let listener = UnixDatagram::bind(&path).unwrap();
        let manager = ServiceManager::new(path.as_os_str(), None).unwrap();
        manager
            .send(&[Message::Ready, Message::Status("two\nlines")])
            .unwrap();
        assert_eq!(received(&listener), "READY=1\nSTATUS=two lines");
        for (message, line) in [
            (Message::Reloading, "RELOADING=1"),
            (Message::Stopping, "STOPPING=1"),
            (Message::Alive, "WATCHDOG=1"),
        ] {
            manager.send(&[message]).unwrap();
            assert_eq!(received(&listener), line);
        }
    }

    #[test]
    fn messages_arrive_at_a_name_without_a_file() {
        let name = format!("tetris-service-manager-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let listener = UnixDatagram::bind_addr(&address).unwrap();
        let manager = ServiceManager::new(OsStr::new(&format!("@{name}")), None).unwrap();
        manager.send(&[Message::Alive]).unwrap();
        assert_eq!(received(&listener), "WATCHDOG=1");
    }

    #[test]
    fn an_address_of_another_kind_is_refused() {
        for address in ["", "notify", "vsock:2:1234"] {
            let error = ServiceManager::new(OsStr::new(address), None).unwrap_err();
            assert!(error.to_string().contains("NOTIFY_SOCKET"), "{error}");
        }
    }

    #[test]
    fn a_service_manager_that_is_gone_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let manager = ServiceManager::new(dir.path().join("none").as_os_str(), None).unwrap();
        assert!(manager.send(&[Message::Ready]).is_err());
    }

    #[test]
    fn the_watchdog_is_that_of_this_process() {
        let minute = Some(Duration::from_mins(1));
        assert_eq!(watchdog(Some("60000000"), None, 7), minute);
        assert_eq!(watchdog(Some("60000000"), Some("7"), 7), minute);
        assert_eq!(watchdog(Some("60000000"), Some("8"), 7), None);
        for none in [None, Some("0"), Some("-1"), Some("soon")] {
            assert_eq!(watchdog(none, None, 7), None);
        }
    }
}
