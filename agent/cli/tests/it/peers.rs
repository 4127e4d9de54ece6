//! Manifests of other nodes: what they save, and what a false one does.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tetris_store_layout::{Digest, Manifest};
use tetris_test_support::model_site::ModelSite;
use tetris_test_support::models::write_model;

use crate::pull::of_hub;
use crate::site::{Background, Site, run};

/// A hub with a fine-tune, a node that keeps it, and the port on which that answers.
struct World {
    _node: Site,
    hub: ModelSite,
    base: PathBuf,
    tuned: PathBuf,
    port: u16,
    keep: Background,
}

impl World {
    fn new() -> Self {
        let node = Site::new();
        let hub = ModelSite::new();
        let (base, tuned) = (
            node.dir().join("b.safetensors"),
            node.dir().join("t.safetensors"),
        );
        write_model(&base, 1, None);
        write_model(&tuned, 1, Some(7));
        hub.put_in_repo(
            "org/tuned",
            "model.safetensors",
            std::fs::read(&tuned).unwrap(),
        );
        hub.put_in_repo("org/tuned", "config.json", "{}");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let mut keep = node.command(&[
            "keep",
            "--format",
            "json",
            "--name",
            "tuned",
            "hf://org/tuned",
        ]);
        of_hub(&mut keep, &hub);
        keep.arg(format!("--ready-port={port}"))
            .stderr(Stdio::null());
        let mut keep = Background::start(&mut keep);
        keep.line();
        Self {
            _node: node,
            hub,
            base,
            tuned,
            port,
            keep,
        }
    }

    /// Pulls the fine-tune to a node that has the base, asking a peer on this port.
    fn pull(&self, port: u16) -> Value {
        let other = Site::new();
        other.load(&self.base);
        let peer = format!("127.0.0.1:{port}");
        let mut pull = other.command(&[
            "pull",
            "hf://org/tuned",
            "--format",
            "json",
            "--peers",
            &peer,
        ]);
        of_hub(&mut pull, &self.hub);
        let pulled = run(&mut pull).expect(0).json()["sources"][0].clone();
        let loaded = other.load(&self.tuned);
        assert_eq!(loaded["models"][0]["bytes_new"], 0, "{loaded}");
        pulled["files"][1].clone()
    }

    /// The manifest as the node passes it.
    fn manifest(&self) -> Vec<u8> {
        let bytes = std::fs::read(&self.tuned).unwrap();
        let digest = Digest(Sha256::digest(&bytes).into());
        let path = format!("/manifests/sha256/{digest}-{}", bytes.len());
        let answer = get(self.port, &path);
        let (head, body) = split(&answer);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        body.to_vec()
    }
}

fn get(port: u16, path: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

fn split(answer: &[u8]) -> (String, &[u8]) {
    let end = answer
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .unwrap();
    (
        String::from_utf8_lossy(&answer[..end]).into_owned(),
        &answer[end + 4..],
    )
}

/// A peer that answers everything with this, and the port on which it does.
fn false_peer(body: Vec<u8>) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 4096];
            let _request = stream.read(&mut head);
            let _gone = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            let _gone = stream.write_all(&body);
        }
    });
    port
}

#[test]
fn a_node_with_the_base_fetches_what_another_node_knows_to_differ() {
    let world = World::new();
    let pulled = world.pull(world.port);
    assert_eq!(
        (&pulled["known_by"], &pulled["objects_new"]),
        (&"peer".into(), &1.into()),
        "{pulled}"
    );
    assert!(
        pulled["bytes_fetched"].as_u64().unwrap() < 450_000,
        "{pulled}"
    );
    for path in ["/", "/manifests/sha256/x-1", "/manifests/sha256/../x"] {
        assert!(
            split(&get(world.port, path)).0.starts_with("HTTP/1.1 404"),
            "{path}"
        );
    }
    // Without one, the file is read.
    world.keep.signal(nix::sys::signal::Signal::SIGKILL);
    assert_eq!(world.pull(1)["known_by"], "reading");
}

#[test]
fn peers_that_lie_or_hold_connections_change_nothing() {
    let world = World::new();
    let manifest = world.manifest();
    let lies = {
        let mut names = Manifest::decode(&manifest).unwrap();
        // The same bytes in the same places, under each other's names.
        let is_bias = |name: &str| name.contains("bias");
        let biases: Vec<usize> = (0..names.tensors.len())
            .filter(|&index| is_bias(&names.tensors[index].name))
            .collect();
        let [first, second] = biases[..] else {
            panic!("{biases:?}")
        };
        let name = names.tensors[first].name.clone();
        names.tensors[first].name = names.tensors[second].name.clone();
        names.tensors[second].name = name;
        let mut objects = Manifest::decode(&manifest).unwrap();
        objects.objects.swap(0, 1);
        [
            names.encode(),
            objects.encode(),
            b"no manifest".to_vec(),
            vec![0; 17 << 20],
        ]
    };
    for lie in lies {
        let pulled = world.pull(false_peer(lie));
        assert_eq!(pulled["known_by"], "reading", "{pulled}");
    }
    // All connections are held by others: it is answered when their time is over, or not at all.
    let connections: Vec<_> = (0..64)
        .map(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, world.port)).unwrap())
        .collect();
    world.pull(world.port);
    drop(connections);
}
